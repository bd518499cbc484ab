"""Install the agent on many hosts over ssh at a time, and confirm at the hub that each reports."""

import fnmatch
import re
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from msgspec import Struct

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import UsageError
from fleet_smi.hub.ssh_hosts import expand_hosts, validate_host
from fleet_smi.hub.ssh_session import run_script
from fleet_smi.model.node_summary import FleetOverview

_END = "FLEET_SMI_END_OF_SCRIPT"
_CONFIRM_SECONDS = 20.0
_POLL_SECONDS = 0.5
_NAME = re.compile(r"joined as (\S+):")
# In braces: the shell reads all of it before it runs any.
_REMOTE = """\
{{
umask 077
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cat >"$folder/install" <<'{end}' || {{ echo "$folder: is the disk full?" >&2; exit 1; }}
{script}{end}
as=
[ "$(id -u)" = 0 ] || {{ sudo -n true && as='sudo -n'; }} >/dev/null 2>&1
echo {token} | $as sh "$folder/install" {flags}
exit
}}
"""


class JoinPlan(Struct, frozen=True, kw_only=True):
    """The command for each host, and how it is run."""

    script: bytes
    url: str
    fingerprint: str | None
    token: str
    is_insecure: bool
    is_dry_run: bool
    ssh_config: str | None
    timeout_seconds: float

    def remote_script(self) -> bytes:
        """The script that installs, as root where that needs no password."""
        flags = [self.url]
        flags += [] if self.fingerprint is None else ["--fingerprint", self.fingerprint]
        flags += ["--insecure-http"] if self.is_insecure else []
        flags += ["--dry-run"] if self.is_dry_run else []
        return _REMOTE.format(
            end=_END,
            script=self.script.decode(),
            token=shlex.quote(self.token),
            flags=shlex.join(flags),
        ).encode()


class Outcome(Struct, frozen=True):
    """The outcome of one host, as one line."""

    host: str
    is_good: bool
    text: str
    may_ask: bool = False


def select_hosts(names: Sequence[str], nodes: FleetOverview, config: str | None) -> list[str]:
    """The hosts; a pattern matches those of ssh_config and the nodes that the hub knows."""
    hosts: dict[str, None] = {}
    known = [node.name for node in nodes.nodes]
    for name in (part for argument in names for part in argument.split(",") if part):
        if not set(name) & set("*?"):
            hosts[validate_host(name)] = None
            continue
        matching = fnmatch.filter(known, name.replace("[", "[[]"))
        try:
            matching = [*expand_hosts([name], config), *matching]
        except UsageError:
            if not matching:
                raise
        hosts.update(dict.fromkeys(map(validate_host, matching)))
    return list(hosts)


class HostJoiner:
    """Runs a plan on hosts, several at a time."""

    def __init__(self, plan: JoinPlan, client: HubClient) -> None:
        self._plan = plan
        self._client = client
        self._lock = threading.Lock()  # a client has one connection

    def join_all(self, hosts: Sequence[str], parallel: int) -> Iterator[Outcome]:
        """Yield the outcome of each host when it is known."""
        pool = ThreadPoolExecutor(parallel, "join")
        try:
            futures = [pool.submit(self.join_host, host) for host in hosts]
            for future in as_completed(futures):
                yield future.result()
        finally:  # after Ctrl-C, without waiting for those that run
            pool.shutdown(wait=False, cancel_futures=True)

    def join_host(self, host: str, *, may_ask: bool = False) -> Outcome:
        """Install on one host; `may_ask` lets ssh ask at the terminal."""
        plan = self._plan
        result = run_script(
            host,
            plan.remote_script(),
            config=plan.ssh_config,
            timeout_seconds=plan.timeout_seconds,
            may_ask=may_ask,
        )
        problem = None
        if result.is_done and not plan.is_dry_run:
            problem = self._find_problem(result.text)
        text = result.text if problem is None else f"{result.text}; but {problem}"
        return Outcome(host, result.is_done and problem is None, text, result.may_ask)

    def _find_problem(self, outcome: str) -> str | None:
        """Wait for a report of the service; return what the hub has against the node."""
        found = _NAME.search(outcome)
        since, deadline = self._overview().taken_at, time.monotonic() + _CONFIRM_SECONDS
        while found is not None:
            overview = self._overview()
            nodes = [node for node in overview.nodes if _names(node.name, found[1])]
            # One that an admin has renamed is not found. It has sent a report when it joined.
            if not nodes:
                return None
            if any((node.reported_at or 0.0) > since for node in nodes):
                # Two machines with one id: the hub says what to do on the clone.
                cloned = [text for node in nodes for text in node.warnings if "machine-id" in text]
                return cloned[0] if cloned else None
            if time.monotonic() > deadline:
                return "the hub has no report of its service: see the log of its agent"
            time.sleep(_POLL_SECONDS)
        return None

    def _overview(self) -> FleetOverview:
        with self._lock:
            return self._client.overview()


def _names(shown: str, name: str) -> bool:
    """Whether two names are of one machine: one may have its domain."""
    return shown == name or shown.partition(".")[0] == name.partition(".")[0]
