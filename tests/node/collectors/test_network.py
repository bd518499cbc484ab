"""Which addresses are reported."""

from fleet_smi.node.collectors.network import NetworkCollector


def test_wifi_is_listed_and_container_bridges_are_not() -> None:
    raw = [
        ("wlo1", "192.168.0.7"),
        ("eno1", "192.168.0.3"),
        ("docker0", "172.17.0.1"),
        ("br-1a2b3c", "172.18.0.1"),
        ("eno1", "fe80::1"),
    ]
    part = NetworkCollector().parse(raw)
    assert part.host is not None
    assert part.host.addresses == ("192.168.0.7", "192.168.0.3")
    assert part.host.interfaces == {"192.168.0.7": "wlo1", "192.168.0.3": "eno1"}
