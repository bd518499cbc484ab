"""Tool `why_is_it_slow`: what may slow down a node, a GPU, a person's GPUs or a job."""

from typing import Annotated

from msgspec import Meta, Struct

from fleet_smi.client.summaries import fetch_diagnosis
from fleet_smi.errors import NotFound, UsageError
from fleet_smi.mcp.answers import cut
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import OutsideText, outside, quoted, reason
from fleet_smi.model.diagnosis import USER_PREFIX, Diagnosis, SlowdownFinding, diagnose_target
from fleet_smi.model.units import pluralize
from fleet_smi.model.views import split_fleet_view

_MAX_FINDINGS, _MAX_PLACES, _MAX_TARGETS = 50, 8, 8


class SlowArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target to examine; without one, the GPUs of the person whose token the server has."""

    target: (
        Annotated[
            str,
            Meta(max_length=200, description="gpu03, gpu03:1, a UUID, user:alice; one machine: 0"),
        ]
        | None
    ) = None
    job: Annotated[str, Meta(max_length=200, description="the id of a job, instead")] | None = None


class SlowFinding(Struct, frozen=True, kw_only=True):
    """One thing that may slow work down; without a GPU it is about the whole node."""

    kind: str
    severity: str
    node: OutsideText
    gpu: OutsideText | None
    text: OutsideText


class Slowdown(Struct, frozen=True, kw_only=True):
    """The examined GPUs and the findings, the most severe first.

    `advice` is on a job as a whole, from its history.
    """

    target: OutsideText
    gpus: int
    findings: tuple[SlowFinding, ...]
    more_findings: int
    advice: tuple[str, ...] = ()


def why_is_it_slow(access: FleetAccess, asked: SlowArguments) -> tuple[Slowdown, str]:
    """Return what may slow the target down."""
    if asked.job is not None:
        return _job(access, asked.job)
    target = asked.target or _default_target(access)
    found = _slowdown(target, [_diagnosis(access, target)], ())
    return found, _text(found)


def _job(access: FleetAccess, job_id: str) -> tuple[Slowdown, str]:
    job = access.require_hub().job(job_id)
    looked_at = []
    for place in job.places[:_MAX_PLACES]:
        try:
            looked_at.append(_diagnosis(access, place))
        except NotFound:  # the node was removed or renamed since
            continue
    # What its GPUs say now is not about a job that has ended.
    looked_at = looked_at if job.end is None else []
    found = _slowdown(f"job {job_id}", looked_at, job.advice)
    return found, _text(found)


def _diagnosis(access: FleetAccess, target: str) -> Diagnosis:
    if access.hub is not None:
        return fetch_diagnosis(access.hub, target)
    view = access.view()
    return diagnose_target(split_fleet_view(view).nodes, target, view.taken_at)


def _default_target(access: FleetAccess) -> str:
    if access.hub is None:
        nodes = access.view().nodes
        if len(nodes) == 1:
            return nodes[0].name
    elif (person := access.person()) is not None:
        return USER_PREFIX + person
    raise UsageError("say what is slow: a node (gpu03), a GPU (gpu03:1) or a person (user:alice)")


def _slowdown(target: str, looked_at: list[Diagnosis], advice: tuple[str, ...]) -> Slowdown:
    found = [finding for one in looked_at[:_MAX_TARGETS] for finding in one.findings]
    findings, more_findings = cut(found, _MAX_FINDINGS, _finding)
    return Slowdown(
        target=outside(target),
        gpus=sum([one.gpus for one in looked_at]),
        findings=findings,
        more_findings=more_findings,
        advice=tuple(map(reason, advice)),
    )


def _finding(finding: SlowdownFinding) -> SlowFinding:
    return SlowFinding(
        kind=finding.kind,
        severity=finding.severity,
        node=outside(finding.node),
        gpu=outside(finding.gpu),
        text=reason(finding.text),
    )


def _text(found: Slowdown) -> str:
    lines = [
        f"- {one.severity}: {quoted(one.gpu or one.node)}: {one.text}" for one in found.findings
    ]
    lines += [f"- the job: {text}" for text in found.advice]
    head = f"{quoted(found.target)}, {pluralize(found.gpus, 'GPU')} looked at:"
    return "\n".join([head, *lines] if lines else [f"{head} nothing unusual."])
