"""The command line that lets a node join, with a token that does not stay visible there."""

import re
import shlex

from fleet_smi.model.units import format_duration, pluralize

_HOUR = 3600.0


def join_command(url: str, join_token: str, fingerprint: str | None = None) -> str:
    """The command line to paste on a node so that it joins this hub.

    The token goes through standard input: every user of the node can read the arguments of
    its programs, and `echo` is a part of the shell.
    """
    pin = [] if fingerprint is None else ["--fingerprint", fingerprint]
    agent = shlex.join(["fleet-smi", "agent", "--to", url, "--join-file", "-", *pin])
    return f"echo {shlex.quote(join_token)} | {agent}"


def with_port(url: str) -> str:
    """The URL with the port of its scheme where it names none: agents would take the hub's own."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if not re.search(r":\d+$", host):
        host += ":443" if scheme == "https" else ":80"
    return f"{scheme}://{host}{slash}{path}"


def describe_limits(lifetime_seconds: float, max_uses: int) -> str:
    """How long and for how many nodes a join token is valid, as people read it."""
    hours, rest = divmod(lifetime_seconds, _HOUR)
    # A day as hours: it is counted from now, not by the calendar.
    is_short = not rest and hours <= 48
    lifetime = pluralize(int(hours), "hour") if is_short else format_duration(lifetime_seconds)
    return f"valid for {lifetime} and {pluralize(max_uses, 'machine')}"
