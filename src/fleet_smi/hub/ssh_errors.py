"""Parse the error output of `ssh` into an error with a remedy."""

import re

from fleet_smi.errors import DeliveryError, Refused, Unreachable
from fleet_smi.model.safe_text import sanitize_text

UNRESOLVED_MESSAGE = "its name cannot be resolved: check ssh_config, /etc/hosts and DNS"
# Repetitions are bounded: the text is partly the remote machine's.
_CHANGED = re.compile(r"host key for (\S{1,255}) has changed", re.IGNORECASE)
# Some builds of ssh print the command that removes the old key.
_REMEDY = re.compile(r"^\s*(ssh-keygen .{0,400}-R .{1,300})$", re.MULTILINE)
_UNKNOWN = re.compile(r"host key is known for (\S{1,255}) and you have requested strict checking")
_DENIED = re.compile(r"^(?:\S{1,255}: )?Permission denied \((.{0,200})\)", re.MULTILINE)

# The first match counts. ssh also ends with "Host key verification failed" after it has printed
# a more specific reason, so those are tried before.
_BY_PATTERN: tuple[tuple[str, type[DeliveryError], str], ...] = (
    (
        r"REVOKED HOST KEY|marked as revoked",
        Refused,
        "its host key has been revoked: ask who runs the machine",
    ),
    (
        r"Host key verification failed",
        Refused,
        "its host key could not be verified: ssh to it once by hand to see why",
    ),
    (
        r"Too many authentication failures",
        Refused,
        "permission denied after too many keys: name one with IdentityFile in ssh_config",
    ),
    (
        r"Could not resolve hostname|Name or service not known",
        Unreachable,
        UNRESOLVED_MESSAGE,
    ),
    (r"Connection refused", Unreachable, "connection refused: no sshd listens there"),
    (r"No route to host|Network is unreachable", Unreachable, "no route to the host: is it on?"),
    (r"timed out|Timeout, server", Unreachable, "the ssh connection timed out: is it on?"),
    (
        r"Connection (?:closed|reset) by|Broken pipe|Session open refused",
        Unreachable,
        "the connection was closed: is it shutting down, or has it too many connections?",
    ),
)


def parse_ssh_error(stderr: str) -> DeliveryError:
    """The error that the output of ssh describes, with what to do about it."""
    if error := _host_key_error(stderr):
        return error
    if denied := _DENIED.search(stderr):
        methods = sanitize_text(denied[1], 100)
        return Refused(
            f"permission denied ({methods}): authorize your key there, or load it; "
            "for the hub's service, authorize its own"
        )
    for pattern, error_type, message in _BY_PATTERN:
        if re.search(pattern, stderr):
            return error_type(message)
    lines = [line for raw in stderr.splitlines() if (line := sanitize_text(raw, 200))]
    return Unreachable(f"ssh failed: {lines[-1] if lines else 'without a message'}")


def _host_key_error(stderr: str) -> DeliveryError | None:
    if changed := _CHANGED.search(stderr):
        remedy = _REMEDY.search(stderr)
        line = remedy[1] if remedy else f"ssh-keygen -R {changed[1]}"
        return Refused(
            f"the host key of {sanitize_text(changed[1], 255)} has changed: it was "
            "reinstalled, or the connection is intercepted; compare the keys, then "
            f"{sanitize_text(line, 700)}"
        )
    if unknown := _UNKNOWN.search(stderr):
        host = sanitize_text(unknown[1], 255)
        return Refused(
            f"{host} is not in known_hosts: `fleet-smi ssh trust HOST` adds it; "
            "for the hub's service, `sudo fleet-smi ssh trust --system HOST`"
        )
    return None
