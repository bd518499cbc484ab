"""`fleet-smi run --on`: run a job on a node where the hub finds room, over the system's ssh.

Where that is this machine, it runs here.

The hub says which node, and the lock there decides: where somebody was faster, the next offer is
tried. The job has the terminal, the directory and the exit code as if it ran here; if the
connection is lost, it gets SIGHUP as a job in any ssh session does.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from fleet_smi.cli.ending_signals import unwinding_signals
from fleet_smi.cli.lease_keeper import WaitMessages, say
from fleet_smi.cli.offered_here import is_this_machine, run_here
from fleet_smi.cli.ssh_destination import ssh_destination
from fleet_smi.errors import DeliveryError, NotFound, Refused, Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.cli.job_session import JobOptions
    from fleet_smi.cli.ssh_destination import SshNode
    from fleet_smi.client.hub import HubClient
    from fleet_smi.config import Settings
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.queue_place import QueuePlace

Result = int | Literal["busy", "unreachable"]
"""The wait status of a job, or why it could not be started."""
_POLL_SECONDS = 5.0
_TICK_SECONDS = 60.0
_CONNECT_SECONDS = 10
_ALIVE_SECONDS, _ALIVE_COUNT = 30, 6
_SSH_FAILED = 255
# Exit codes that jobs do not use: beyond those of signals, below that of a failed ssh.
_CODES = range(200, 250)
_CONNECTED = ("Authenticated to", "Authentication succeeded", "mux_client_request_session")
_NO_NEWS = ("debug", "OpenSSH_", "Authenticated to", "Transferred: ", "Bytes per second: ")


def run_on(args: argparse.Namespace, options: "JobOptions") -> int:
    """Run the command on a node of `--on`; return its exit code, or end by its signal."""
    from fleet_smi import config

    if args.gpu_ids is not None and _has_choice(args.on):
        raise UsageError("--gpu-ids names GPUs of one machine: give --on NODE")
    settings = config.load(flags={"client.hub": args.hub})
    from fleet_smi.node.bindings.job_process import end_like

    room = _Room(args, options)
    with unwinding_signals(), closing(room.nodes()) as nodes:
        for node in nodes:
            result: Result = (
                run_here(node, args, options)
                if is_this_machine(node)
                else _run_there(node, args, options, settings)
            )
            if isinstance(result, int):
                break
            room.leave_out(node, for_good=result == "unreachable")
        else:
            raise Unmet(room.reason)
    return end_like(result)


class _Room:
    """The nodes that the hub offers, one after the other, until one takes the job or time is up.

    A person waits in the queue of the hub. Who is nobody there, with a token that may only view,
    looks again and again.
    """

    def __init__(self, args: argparse.Namespace, options: "JobOptions") -> None:
        from fleet_smi.cli.lease_arguments import lease_options
        from fleet_smi.queue_place import Deadline

        self._on: str = args.on
        self._request: GpuRequest = replace(
            lease_options(args).request, cuda_visible_devices=None, same_node=True
        )
        self._hub, is_person = _offering_client(args)
        self._place = self._join(options) if is_person else None
        self._deadline = Deadline(options.timeout_seconds)
        self._is_patient = options.timeout_seconds != 0
        self._left_out: set[str] = set()
        self._unreachable: set[str] = set()
        self._messages = WaitMessages(self._request.count)
        self.reason = "no node has room"

    def leave_out(self, node: "SshNode", *, for_good: bool) -> None:
        """Offer other nodes: until none is left, or for good where ssh cannot get there."""
        self._left_out.add(node.node_id)
        if for_good:
            self._unreachable.add(node.node_id)
            if not _has_choice(self._on):
                raise Unmet(f"{node.node} has room, and cannot be used from here")
        if self._place is not None:
            self._place.give_back(unreachable=for_good)

    def nodes(self) -> "Generator[SshNode, None, None]":
        """Yield a node with room; wait while there is none, at most as long as is allowed."""
        found = self._find()  # at first, to say at once that there is no such node or label
        try:
            while True:
                if self._place is not None:
                    found = self._wait_in_queue()
                if found is not None:
                    yield found
                elif self._is_patient:
                    # Those that were left out may have room again.
                    self._left_out.clear()
                    self._messages(self.reason)
                    pause = _POLL_SECONDS * (0.8 + 0.4 * random.random())  # noqa: S311
                    self._deadline.pause(pause, self.reason)
                else:
                    return
                if self._place is None:
                    found = self._find()
        except Unmet as error:
            self.reason = str(error)
        finally:
            if self._place is not None:
                self._place.finish()
                self._place.leave()

    def _join(self, options: "JobOptions") -> "QueuePlace":
        from fleet_smi.model.queue.entries import NODE_PREFIX, QueueRequest
        from fleet_smi.queue_place import QueuePlace

        is_prefixed = _has_choice(self._on) or self._on.startswith(NODE_PREFIX)
        wanted = QueueRequest(
            count=self._request.count,
            min_free_bytes=self._request.min_free_bytes,
            model=self._request.model,
            vendor=self._request.vendor,
            where=self._on if is_prefixed else f"{NODE_PREFIX}{self._on}",
            max_hours=options.max_hours,
            note=options.note,
            kind="run",
            ignore_bookings=options.ignore_bookings,
        )
        return QueuePlace(self._hub, wanted)

    def _wait_in_queue(self) -> "SshNode | None":
        from fleet_smi.queue_place import wait_for_offer

        if self._place is None:
            return None
        try:
            return wait_for_offer(
                self._place, self._deadline.left, self._messages, has_answered=self._is_patient
            ).offer
        except (NotFound, Refused) as error:
            # A hub without a queue, or one that does not know who this is.
            say(f"not in the queue of the hub, only looking: {error}")
            self._place = None
            return self._find()

    def _find(self) -> "SshNode | None":
        """Return a node with room now, but none of those that were left out."""
        not_on = ",".join(sorted(self._left_out | self._unreachable)) or None
        try:
            offer = self._hub.offers(self._request, on=self._on, not_on=not_on)
        except Refused:
            raise
        except DeliveryError as error:
            if not self._is_patient:
                raise
            self.reason = str(error)  # a hub that is away for a moment
            return None
        if offer.unmet is None and offer.offered:
            return offer.offered[0]
        self.reason = offer.unmet or "no node has room"
        return None


def _has_choice(on: str) -> bool:
    """Whether `--on` means more than one node."""
    return on == "any" or on.startswith("label:")


def _offering_client(args: argparse.Namespace) -> "tuple[HubClient, bool]":
    """Return a client, and whether it is this user's own: without a login, to view will do."""
    from fleet_smi.acting import acting_client
    from fleet_smi.cli.fleet_source import hub_client

    try:
        return acting_client(args.hub), True
    except Refused as nobody:
        try:
            return hub_client(args), False
        except UsageError:
            raise nobody from None


def _run_there(
    node: "SshNode",
    args: argparse.Namespace,
    options: "JobOptions",
    settings: "Settings",
) -> Result:
    """Run the job on a node; return its wait status, or why it could not be started there."""
    from fleet_smi.node.bindings.job_process import run_job

    unmet = random.choice(_CODES)  # noqa: S311  # no secret
    script = _script(args, options, node, unmet)
    descriptor, log = tempfile.mkstemp(prefix="fleet-smi-ssh-")
    os.close(descriptor)
    say(f"on {node.node}")
    try:
        command = _ssh_command(node, script, log, settings)
        sys.stderr.flush()
        status = run_job(command, os.environ, lambda: None, _TICK_SECONDS)
        messages = Path(log).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        raise UsageError("ssh is not installed here: --on needs it") from None
    finally:
        Path(log).unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    for line in messages:
        if not line.startswith(_NO_NEWS):
            say(f"{node.node}: {line}")
    if code == unmet:
        return "busy"
    is_connected = any(word in line for line in messages for word in _CONNECTED)
    if code == unmet + 1 or (code == _SSH_FAILED and not is_connected):
        return "unreachable"
    return status


def _ssh_command(node: "SshNode", script: str, log: str, settings: "Settings") -> list[str]:
    config = settings.hub.ssh_config
    # A terminal only where there is one here: else output would be changed on its way.
    terminal = "-t" if os.isatty(0) else "-T"
    return [
        "ssh",
        *(("-F", config) if config else ()),
        *("-o", f"ConnectTimeout={_CONNECT_SECONDS}"),
        # A node that loses its power never says so.
        *(
            "-o",
            f"ServerAliveInterval={_ALIVE_SECONDS}",
            "-o",
            f"ServerAliveCountMax={_ALIVE_COUNT}",
        ),
        *("-v", "-E", log),  # whether it got there is said nowhere else
        terminal,
        "--",
        ssh_destination(node),
        f"exec sh -c {quote(script)}",
    ]


def _script(args: argparse.Namespace, options: "JobOptions", node: "SshNode", unmet: int) -> str:
    """Return the shell script that runs there; every word of the user is quoted."""
    # What the queue offers are these GPUs, not others that are free there by chance.
    offered = ",".join(getattr(node, "uuids", ())) or None
    words = ["fleet-smi", "run", "--remote", str(unmet), *_flags(args, options, offered)]
    words += ["--", *options.command]
    # Where it is installed for one user, or where it is here; after what the PATH has there.
    more = f'"$HOME/.local/bin":{quote(os.path.dirname(os.path.abspath(sys.argv[0])))}'  # noqa: PTH100, PTH120
    return (
        f"d={quote(os.getcwd())}; "  # noqa: PTH109
        f'fail() {{ echo fleet-smi: {quote(node.node)}: "$1" >&2; exit {unmet + 1}; }}; '
        'cd -- "$d" 2>/dev/null || fail "there is no folder $d"; '
        f"PATH=$PATH:{more}; export PATH; "
        'command -v fleet-smi >/dev/null 2>&1 || fail "fleet-smi is not installed there"; '
        f"exec {' '.join(map(quote, words))}"
    )


def _flags(args: argparse.Namespace, options: "JobOptions", offered: str | None) -> list[str]:
    """Return the flags of `run` on the node."""
    values = {
        "--count": args.count,
        "--min-free": args.min_free,
        "--model": args.model,
        "--vendor": args.vendor,
        "--gpu-ids": args.gpu_ids or offered,
        "--max-hours": options.max_hours,
        "--note": options.note,
    }
    switches = {
        "--uuid": options.uuid,
        "--print-docker": options.print_docker,
        "--prefer-last": args.prefer_last,
        "--detach": args.detach,
        "--ignore-bookings": options.ignore_bookings and args.detach,
        # In the background it waits there; else it goes on to the next offer.
        "--nowait": not args.detach,
    }
    flags = [f"{flag}={value}" for flag, value in values.items() if value is not None]
    return flags + [flag for flag, is_set in switches.items() if is_set]
