"""Let a node join before its service is installed: the person who installs it sees a refusal."""

from collections.abc import Sequence

from fleet_smi.cli.systemd_units import STATE_DIR
from fleet_smi.node.bindings import background, systemd

SYSTEM_STATE = f"{STATE_DIR}/agent"
"""The state folder of the machine's agent, which systemd would make."""


def join_hub(
    program: Sequence[str],
    url: str,
    fingerprint: str | None,
    token: str,
    state: str,
    user: str | None,
) -> bool:
    """Send one report, after joining where that is needed; return whether it had joined before.

    The agent must not run: it has the state folder locked. Raise `Unmet` with the hub's reason.
    """
    from fleet_smi.node.credential_file import CredentialFile

    if user is not None:
        owner = ("-o", user, "-g", user)
        systemd.run(("install", "-d", "-m", "0700", *owner, state))
    was_joined = CredentialFile(state).get(url.rstrip("/")) is not None
    pin = ("--fingerprint", fingerprint) if fingerprint else ()
    once = ("agent", "--once", "--to", url, *pin, "--join-file", "-", "--state", state)
    background.run_as((*program, *once), f"{token}\n", user)
    return was_joined
