"""What stands of the verdicts on one GPU: noise around a threshold must not flap it."""

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.case import Case
from fleet_smi.model.crowd import NOBODY, Crowd, crowd_of
from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.thresholds import Thresholds
from fleet_smi.model.verdict import decide
from fleet_smi.model.window import Seen, observe


class Standing(Struct, frozen=True, gc=False):
    """What is remembered of one GPU or instance, and the verdict that stands.

    `disagreed` counts the latest samples that would have said another state than the
    standing one; `candidate` is what the last of them says, and since when.
    """

    seen: Seen
    verdict: Verdict
    crowd: Crowd = NOBODY
    disagreed: int = 0
    candidate: State | None = None
    candidate_from: float = 0.0


class Sampled(Struct, frozen=True, gc=False):
    """When a sample came, by the watcher's clock, how often they come, and by how much that
    clock is ahead of the node's."""

    at: float
    interval_seconds: float | None = None
    skew: float = 0.0


def follow(
    known: Standing | None,
    subject: Gpu | Instance,
    gpu: Gpu,
    sampled: Sampled,
    settings: Thresholds,
    instances: tuple[Verdict, ...] = (),
) -> Standing:
    """Take in one more sample: remember it, judge it, and let the verdict settle.

    `subject` is `gpu` itself, with the verdicts on its `instances`, or one of these.
    """
    at, pace, skew = sampled.at, sampled.interval_seconds, sampled.skew
    if known is None:
        seen, previous, crowd = None, None, crowd_of(subject.processes)
    else:
        crowd = crowd_of(subject.processes, known.crowd)
        seen, previous = known.seen, known.verdict
    seen = observe(seen, subject, at, settings, gpu, pace, skew, crowd)
    verdict = decide(Case(subject, gpu, seen, at, settings, crowd, instances), previous)
    return settle(known, seen, verdict, crowd, settings)


def settle(
    known: Standing | None, seen: Seen, verdict: Verdict, crowd: Crowd, settings: Thresholds
) -> Standing:
    """Let a verdict stand, or keep the one before until the new state has lasted.

    What people and machines do (processes, faults, modes) acts at once; what a threshold
    does must disagree with the standing state `settle_samples` times in a row.
    """
    if known is None or verdict.state == known.verdict.state or seen.samples == 1:
        return Standing(seen, verdict, crowd)
    if seen.changed and not _may_be_an_exit(known.verdict, verdict):
        return Standing(seen, verdict, crowd)
    goes_on = known.candidate == verdict.state
    candidate_from = known.candidate_from if goes_on else seen.last_at
    disagreed = known.disagreed + 1
    if disagreed >= settings.settle_samples:
        return Standing(seen, replace(verdict, since=candidate_from), crowd)
    return Standing(seen, known.verdict, crowd, disagreed, verdict.state, candidate_from)


def _may_be_an_exit(before: Verdict, now: Verdict) -> bool:
    # Memory is often freed a moment after its process left: not every exit leaves a ghost.
    return now.state == "ghost" and before.state in ("busy", "held", "free")
