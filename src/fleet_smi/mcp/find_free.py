"""Tool `find_free_gpus`: the request language of `fleet-smi free`."""

import shlex
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fleet_smi.mcp.answers import WantedGpus, cut, gib
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import OutsideText, iso_time, outside, quoted, reason
from fleet_smi.model.candidates import Candidate, GpuRequest
from fleet_smi.model.select import Offer, Rejection, find_offer

_MAX_GPUS, _MAX_REJECTED = 64, 12
Policy = Literal["free", "no-process", "memory", "load", "context"]


class FreeArguments(WantedGpus, frozen=True, kw_only=True):
    """The request, with the options of `fleet-smi free`."""

    same_node: Annotated[bool, Meta(description="all GPUs on one node")] = False
    policy: Annotated[Policy, Meta(description="what counts as free")] = "free"
    max_used: Annotated[float, Meta(ge=0, le=100, description="percent, for policy memory")] = 20.0


class FreeGpu(Struct, frozen=True, kw_only=True):
    """A GPU or MIG instance that is offered; `ssh_host` is where `ssh` reaches its node."""

    gpu: OutsideText
    node: OutsideText
    index: int
    uuid: OutsideText
    model: OutsideText | None
    free_memory_gib: float | None
    temperature_celsius: float | None
    ssh_host: OutsideText | None


class RejectedGpu(Struct, frozen=True, kw_only=True):
    """A GPU that is not offered, and why."""

    gpu: OutsideText
    why: OutsideText


class FreeGpus(Struct, frozen=True, kw_only=True):
    """The GPUs to take, best first; where they are not enough, why, and when it may be met.

    `take_with` is the command that takes such GPUs and keeps them from others while it runs. It is
    made of the arguments alone, without text from outside.
    """

    met: bool
    take_with: str
    reason: OutsideText
    gpus: tuple[FreeGpu, ...]
    rejected: tuple[RejectedGpu, ...] = ()
    more_rejected: int = 0
    usually_by: str | None = None
    free: int
    total: int
    silent_nodes: int


def find_free_gpus(access: FleetAccess, wanted: FreeArguments) -> tuple[FreeGpus, str]:
    """Return the best free GPUs, by the hub's judgement where there is one."""
    request = GpuRequest(
        count=wanted.count,
        min_free_bytes=wanted.min_free_bytes,
        model=wanted.model,
        vendor=wanted.vendor,
        policy=wanted.policy,
        max_used_percent=wanted.max_used,
        same_node=wanted.same_node,
    )
    offer = _offer(access, request)
    refused = () if offer.unmet is None else offer.refused
    rejected, more_rejected = cut(refused, _MAX_REJECTED, _rejection)
    counts, expected = offer.summary, offer.expected
    found = FreeGpus(
        met=offer.unmet is None,
        take_with=_command(wanted, on_any=access.hub is not None),
        reason=reason(offer.reason or offer.unmet or ""),
        gpus=tuple(map(_gpu, offer.offered[:_MAX_GPUS])),
        rejected=rejected,
        more_rejected=more_rejected,
        usually_by=None if expected is None else iso_time(expected.by),
        free=counts.free,
        total=counts.gpus,
        silent_nodes=counts.nodes - counts.nodes_reporting,
    )
    return found, _text(found)


def _command(wanted: FreeArguments, *, on_any: bool) -> str:
    words = ["fleet-smi", "run", *(["--on", "any"] if on_any else []), "-n", str(wanted.count)]
    for flag, value in (("--min-free", wanted.min_free), ("--model", wanted.model)):
        words += [] if value in (None, "0") else [flag, str(value)]
    words += [] if wanted.vendor is None else ["--vendor", wanted.vendor]
    return f"{shlex.join(words)} -- COMMAND"


def _offer(access: FleetAccess, request: GpuRequest) -> Offer:
    if access.hub is None:
        return find_offer(access.view(), request, access.thresholds)
    offer = access.hub.free(request)
    # Only then: of a large fleet the reasons are many.
    return offer if offer.unmet is None else access.hub.free(request, explain=True)


def _gpu(one: Candidate) -> FreeGpu:
    return FreeGpu(
        gpu=outside(one.label),
        node=outside(one.node),
        index=one.index,
        uuid=outside(one.uuid),
        model=outside(one.model),
        free_memory_gib=gib(one.free_memory_bytes),
        temperature_celsius=one.temperature_celsius,
        ssh_host=outside(one.ssh_host),
    )


def _rejection(one: Rejection) -> RejectedGpu:
    label = one.node if one.index is None else f"{one.node}:{one.index}"
    return RejectedGpu(gpu=outside(label), why=reason(one.words))


def _text(found: FreeGpus) -> str:
    lines = [found.reason]
    lines += [
        f"- {quoted(one.gpu)}: {quoted(one.model or 'GPU')}, {one.free_memory_gib or '?'} GiB free"
        for one in found.gpus
    ]
    lines.append(f"Take them with `{found.take_with}`, which keeps them from others meanwhile.")
    if found.usually_by is not None:
        lines.append(f"Usually met by {found.usually_by}.")
    return "\n".join(lines)
