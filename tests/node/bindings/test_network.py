"""The machine's own addresses, against what the kernel itself lists."""

import ipaddress
import socket
from pathlib import Path

from fleet_smi.node.bindings.network import NetworkReader


def test_every_address_belongs_to_an_interface_of_this_machine() -> None:
    names = {name for _, name in socket.if_nameindex()}
    for interface, address in NetworkReader().read():
        assert interface in names - {"lo"}
        assert not ipaddress.ip_address(address).is_loopback


def test_the_newer_addresses_are_those_that_the_kernel_lists() -> None:
    listed = (line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines())
    expected = {
        (interface, str(ipaddress.IPv6Address(int(digits, 16))))
        for digits, _, _, _, _, interface in listed
        if interface != "lo" and _is_up(interface)
    }
    found = {
        (interface, address) for interface, address in NetworkReader().read() if ":" in address
    }
    assert found == expected


def test_an_address_that_others_would_see_is_among_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # UDP connect sends nothing: it only looks up the route
        except OSError:
            return  # a machine without a network has none
        outward = probe.getsockname()[0]
    assert outward in [address for _, address in NetworkReader().read()] or outward.startswith(
        "127."
    )


def _is_up(interface: str) -> bool:
    flags = int(Path(f"/sys/class/net/{interface}/flags").read_text(), 16)
    return bool(flags & 1)
