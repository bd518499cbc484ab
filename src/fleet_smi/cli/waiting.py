"""The wait of `fleet-smi wait`: in the queue of a hub, or by looking again and again."""

import argparse
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi import config
from fleet_smi.acting import acting_client, may_have_hub
from fleet_smi.cli import fleet_source
from fleet_smi.cli.devices import candidate_labels, cuda_devices, require_a_gpu
from fleet_smi.cli.ending_signals import unwinding_signals
from fleet_smi.cli.lease_arguments import lease_options
from fleet_smi.cli.lease_keeper import WaitMessages, say
from fleet_smi.errors import Refused, Unmet, UsageError
from fleet_smi.model.candidates import Candidate, GpuRequest, OfferedDevice
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.node_choice import unknown_place
from fleet_smi.model.queue.entries import ANYWHERE, LABEL_PREFIX, NODE_PREFIX, QueueRequest
from fleet_smi.model.queue.places import is_place
from fleet_smi.model.queue.view import QueueRow
from fleet_smi.model.select import find_offer
from fleet_smi.model.units import parse_duration
from fleet_smi.terminal.view.expected import format_expected

_LOOK_SECONDS = 2.0


class Met(NamedTuple):
    """The GPUs that meet a request: as text, their node and indices, and CUDA_VISIBLE_DEVICES."""

    text: str
    node: str
    indices: str
    cuda_devices: str | None = None


def wait(args: argparse.Namespace) -> Met:
    """Wait until the request of the flags can be met; raise `Unmet` at the timeout."""
    timeout = None if args.timeout is None else parse_duration(args.timeout)
    where = _checked_where(args.on)
    request = replace(lease_options(args).request, same_node=True)
    show = WaitMessages(request.count)
    if not (args.here or args.ssh or args.dir) and may_have_hub(config.load(), args.hub):
        anywhere = replace(request, cuda_visible_devices=None)
        try:
            return _in_queue(args, anywhere, where, timeout, show)
        except Refused as error:
            say(f"not in the queue, only looking: {error}")
    fleet = fleet_source.select_fleet(args, own_hub=True)
    if not fleet.is_local:
        request = replace(request, cuda_visible_devices=None)
    elif where != ANYWHERE:
        raise UsageError("--on: there is only this machine: give --hub, --ssh or --dir")
    return _look(fleet, request, where, timeout, show)


def _checked_where(where: str) -> str:
    if where != ANYWHERE and not where.startswith((NODE_PREFIX, LABEL_PREFIX)):
        where = f"{NODE_PREFIX}{where}"
    return where


def _in_queue(
    args: argparse.Namespace,
    request: GpuRequest,
    where: str,
    timeout: float | None,
    show: Callable[[str], None],
) -> Met:
    from fleet_smi.queue_place import QueuePlace, wait_for_offer

    wanted = QueueRequest(
        count=request.count,
        min_free_bytes=request.min_free_bytes,
        model=request.model,
        vendor=request.vendor,
        where=where,
        max_hours=args.max_hours,
        note=args.note,
    )
    place = QueuePlace(acting_client(args.hub), wanted)
    with unwinding_signals():
        try:
            return _from_row(wait_for_offer(place, timeout, show))
        finally:
            place.leave()


def _from_row(row: QueueRow) -> Met:
    offer = row.offer
    if offer is None:
        raise Unmet(row.why)
    indices = [label.removeprefix(f"{offer.node}:") for label in offer.labels]
    return Met(" ".join(offer.labels), offer.ssh_host or offer.node, ",".join(indices))


def _look(
    fleet: fleet_source.FleetSource,
    request: GpuRequest,
    where: str,
    timeout: float | None,
    show: Callable[[str], None],
) -> Met:
    """Look again and again; nothing is kept for anybody."""
    deadline = None if timeout is None else time.monotonic() + timeout
    if where != ANYWHERE and not _only_there(fleet.view(), where).nodes:
        raise UsageError(unknown_place(where))
    while True:
        offered, reason = _find(fleet, request, where)
        if offered:
            return _from_candidates(offered, is_local=fleet.is_local)
        show(reason)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            fleet_source.require_answer(fleet)
            raise Unmet(reason)
        time.sleep(_LOOK_SECONDS if left is None else min(_LOOK_SECONDS, left))


def _find(
    fleet: fleet_source.FleetSource, request: GpuRequest, where: str
) -> tuple[list[Candidate | OfferedDevice], str]:
    """Return what meets the request now, and else why nothing does."""
    if isinstance(fleet, fleet_source.HubFleet) and where == ANYWHERE:
        found = fleet.offers(request, explain=False)
        expected = format_expected(found.expected, found.taken_at)
        reason = "; ".join([text for text in (found.unmet, expected) if text])
        return ([] if found.unmet else list(found.offered)), reason
    view = fleet.view()
    if fleet.is_local:
        require_a_gpu(view)
    view = _only_there(view, where)
    offer = find_offer(view, request, fleet.thresholds)
    return ([] if offer.unmet else list(offer.offered)), offer.unmet or ""


def _only_there(view: FleetView, where: str) -> FleetView:
    return replace(view, nodes=tuple([node for node in view.nodes if is_place(node, where)]))


def _from_candidates(offered: list[Candidate | OfferedDevice], *, is_local: bool) -> Met:
    devices = cuda_devices(offered)
    first = offered[0]
    if is_local:
        return Met(",".join(devices), os.uname().nodename, ",".join(devices), ",".join(devices))
    labels = candidate_labels(offered)
    return Met(" ".join(labels), first.ssh_host or first.node, ",".join(devices))
