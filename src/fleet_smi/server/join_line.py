"""The command lines that let a node join, with a token that does not stay visible there."""

import re
import shlex
from urllib.parse import urlsplit

from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.model.units import format_duration, pluralize

_HOUR = 3600.0
# $0 is the checksum of the script, $1 the hub's URL. The agent ignores proxies, and so does this.
# A certificate that is pinned is not checked here: the checksum tells the right script. No two
# blanks follow each other: who copies the line from a page by hand would lose one of them.
_FETCH_AND_RUN = """\
f=$(mktemp) && trap "rm -f $f" EXIT && \
if command -v curl >/dev/null; then curl -fsS{curl} --noproxy "*" -o "$f" "$1/install"; \
else wget -q{wget} --no-proxy -O "$f" "$1/install"; fi && \
echo "$0 *$f" | sha256sum -c - >&2 && sh "$f" "$@\""""


def join_command(
    url: str, join_token: str, fingerprint: str | None = None, *, service: bool = False
) -> str:
    """The command line to paste on a node so that it joins this hub, once or as a service.

    The token goes through standard input: every user of the node can read the arguments of
    its programs, and `echo` is a part of the shell.
    """
    pin = [] if fingerprint is None else ["--fingerprint", fingerprint]
    program = "sudo fleet-smi service install agent" if service else "fleet-smi agent"
    # Joins before it starts, so that a refusal is seen where the line is pasted.
    first = ["--join-first"] if service else []
    flags = shlex.join(["--to", url, "--join-file", "-", *pin, *first])
    return f"echo {shlex.quote(join_token)} | {program} {flags}"


def install_command(
    url: str, join_token: str, script_sha256: str, fingerprint: str | None = None
) -> str:
    """The command line to paste on a node that has no fleet-smi: it gets it from the hub.

    It runs the hub's install script if that has this checksum. Where the hub has no TLS, the line
    says so.
    """
    unchecked = ("k", " --no-check-certificate") if fingerprint else ("", "")
    script = _FETCH_AND_RUN.format(curl=unchecked[0], wget=unchecked[1])
    flags = [] if fingerprint is None else ["--fingerprint", fingerprint]
    if is_insecure(url):
        flags.append("--insecure-http")
    run = f"sh -c {shlex.quote(script)} {shlex.join([script_sha256, url, *flags])}"
    return f"echo {shlex.quote(join_token)} | {run}"


def is_insecure(url: str) -> bool:
    """Whether what is sent to this URL crosses a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")


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
