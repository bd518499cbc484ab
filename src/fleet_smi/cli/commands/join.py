"""`fleet-smi join`: install the agent on machines over ssh, let them join, and start them."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.cli.join_hosts import HostJoiner, JoinPlan, Outcome
    from fleet_smi.client.hub import HubClient
    from fleet_smi.config import Settings

HELP = "install the agent on machines over your own ssh, let them join, start them as a service"
EXAMPLES = """\
  fleet-smi join gpu01 gpu02 'lab-*'        patterns match ~/.ssh/config and the hub's nodes
  fleet-smi join --dry-run 'lab-*'          look at each, and say what would be done
  fleet-smi join 'gpu*'                     again: brings agents to the hub's version
"""
_TOKEN_LIFETIME = "1h"  # noqa: S105  # its lifetime
_PARALLEL, _TIMEOUT_SECONDS = 8, 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the hosts and how they are reached."""
    add = parser.add_argument
    add("hosts", nargs="+", metavar="HOST", help="hosts, or patterns like 'lab-*'")
    add("--dry-run", action="store_true", help="say what would be done on each; change nothing")
    add("--url", help="the hub's URL for these machines (default: as `join-command` has it)")
    add("--parallel", type=int, default=_PARALLEL, metavar="N", help=f"at a time ({_PARALLEL})")
    add(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help=f"for each ({_TIMEOUT_SECONDS:g})",
    )
    add("--hub", metavar="URL", help="the hub (default: client.hub, else that of this machine)")


def run(args: argparse.Namespace) -> int:
    """Install on every host; return 1 if one of them failed."""
    from fleet_smi import config
    from fleet_smi.cli.fleet_source import hub_client
    from fleet_smi.cli.join_hosts import HostJoiner, select_hosts

    if args.parallel < 1 or args.timeout <= 0:
        raise UsageError("--parallel and --timeout are at least 1")
    settings = config.load(flags={"client.hub": args.hub})
    client = hub_client(args)
    hosts = select_hosts(args.hosts, client.overview(), settings.hub.ssh_config)
    issued = {} if args.dry_run else _issue_token(client, len(hosts))
    try:
        plan = _plan(args, settings, client, issued.get("token", "none"))
        outcomes = _join(HostJoiner(plan, client), hosts, args.parallel)
    finally:
        if issued:
            client.send("DELETE", f"/api/v1/tokens/{issued['id']}", accepted=404)
    failed = sum(not outcome.is_good for outcome in outcomes)
    if len(hosts) > 1 or failed:
        good = len(hosts) - failed
        print(f"{good} of {len(hosts)} {'can join' if args.dry_run else 'joined'}")
    return 1 if failed else 0


def _join(joiner: "HostJoiner", hosts: list[str], parallel: int) -> "list[Outcome]":
    """Join them without a question; then one after the other those for which ssh has to ask."""
    width = max(map(len, hosts))
    outcomes, asking = [], []
    for outcome in joiner.join_all(hosts, parallel):
        if outcome.may_ask and sys.stdin.isatty():
            asking.append(outcome.host)
        else:
            outcomes.append(_print(outcome, width))
    for host in asking:
        print(f"{host.ljust(width)}  ssh asks:", flush=True)
        outcomes.append(_print(joiner.join_host(host, may_ask=True), width))
    return outcomes


def _print(outcome: "Outcome", width: int) -> "Outcome":
    mark = "" if outcome.is_good else "FAILED: "
    print(f"{outcome.host.ljust(width)}  {mark}{outcome.text}", flush=True)
    return outcome


def _issue_token(client: "HubClient", uses: int) -> dict[str, Any]:
    """A join token for these hosts, which is revoked afterwards."""
    import msgspec

    request = {"role": "join", "note": "fleet-smi join", "expires": _TOKEN_LIFETIME, "uses": uses}
    issued: dict[str, Any] = msgspec.json.decode(
        client.send("POST", "/api/v1/tokens", request).body
    )
    return issued


def _plan(
    args: argparse.Namespace, settings: "Settings", client: "HubClient", token: str
) -> "JoinPlan":
    from fleet_smi.cli.join_hosts import JoinPlan
    from fleet_smi.server.join_line import is_insecure

    url, fingerprint = _address(args, settings, client)
    if is_insecure(url):
        print(f"fleet-smi: {url} has no TLS: join tokens go there unencrypted", file=sys.stderr)
    return JoinPlan(
        script=client.send("GET", "/install").body,
        url=url,
        fingerprint=fingerprint,
        token=token,
        is_insecure=is_insecure(url),
        is_dry_run=args.dry_run,
        ssh_config=settings.hub.ssh_config,
        timeout_seconds=args.timeout,
    )


def _address(
    args: argparse.Namespace, settings: "Settings", client: "HubClient"
) -> tuple[str, str | None]:
    """The hub's URL for nodes and its pin: of the hub on this machine, else as it is used here."""
    from fleet_smi.acting import own_hub_client

    if own_hub_client(settings) is None:
        return args.url or client.url, client.fingerprint
    from fleet_smi.cli.join_address import join_address

    address = join_address(settings, args.url)
    if args.url is None and address.is_loopback:
        raise UsageError("no other machine reaches this hub: set hub.listen, or give --url")
    return address.url, address.fingerprint
