"""IP addresses: those of other machines, in one form."""

import pytest

from fleet_smi.config.ip_addresses import remote_address


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("127.0.0.1", None),
        ("::1", None),
        ("", None),
        ("a-host", None),
    ],
)
def test_the_address_of_another_machine_has_one_form(host: str, expected: str | None) -> None:
    assert remote_address(host) == expected
