"""The error output of ssh, and the error that each becomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import DeliveryError, Refused, Unreachable
from fleet_smi.hub.ssh_errors import parse_ssh_error
from fleet_smi.model.safe_text import sanitize_text

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /home/alice/.ssh/known_hosts:2
  remove with:
  ssh-keygen -f "/home/alice/.ssh/known_hosts" -R "gpu03"
{} for gpu03 has changed and you have requested strict checking.
Host key verification failed.
"""
UNKNOWN = """No ED25519 host key is known for gpu02 and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("complaint", "kind", "message"),
    [
        (CHANGED.format("Host key"), Refused, 'known_hosts" -R "gpu03"'),
        (CHANGED.format("RSA host key"), Refused, "the host key of gpu03 has changed"),
        (
            UNKNOWN,
            Refused,
            "gpu02 is not in known_hosts: `fleet-smi ssh trust HOST` adds it; for the hub's serv",
        ),
        ("Host key verification failed.\n", Refused, "could not be verified"),
        ("a@gpu: Permission denied (publickey,password).\n", Refused, "(publickey,password)"),
        ("Received disconnect: Too many authentication failures\n", Refused, "IdentityFile"),
        (
            "ssh: Could not resolve hostname x: Name or service not known",
            Unreachable,
            "cannot be resolved",
        ),
        ("ssh: connect to host x port 22: Connection refused\r\n", Unreachable, "no sshd"),
        ("ssh: connect to host x port 22: No route to host\r\n", Unreachable, "no route"),
        ("ssh: connect to host x port 22: Connection timed out", Unreachable, "timed out"),
        ("kex_exchange_identification: Connection closed by remote host", Unreachable, "closed"),
        ("config: line 3: Bad configuration option: prot\n", Unreachable, "Bad configuration"),
        ("", Unreachable, "without a message"),
    ],
)
def test_each_failure_has_its_error_and_a_remedy(
    complaint: str, kind: type[DeliveryError], message: str
) -> None:
    error = parse_ssh_error(complaint)
    assert type(error) is kind
    assert message in str(error)


@given(st.text(max_size=300))
def test_any_output_becomes_one_sanitised_line(complaint: str) -> None:
    for text in (complaint, CHANGED.format("Host key").replace("gpu03", complaint)):
        message = str(parse_ssh_error(text))
        assert sanitize_text(message, 2000) == message
