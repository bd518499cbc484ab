"""Live standing of one device: updated by each sample, and put into words when somebody reads it.

A sample is steady when no rule can give another state than for the one before: the same processes
and hardware, readings in the same bands, and no time limit of a rule reached. Nearly all are. A
steady sample only updates running figures, which is a small part of the cost of a judgement; its
window, verdict, reason and notes are made when they are read. Any other sample is judged in full.
The result is the same, sample by sample, as if each had been judged by `apply_sample`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.flapping import NO_RETURNS, forget_returns
from fleet_smi.model.verdict.hysteresis import (
    SampleTiming,
    Standing,
    apply_sample,
    with_last_known,
)
from fleet_smi.model.verdict.idle_users import track_idle_users
from fleet_smi.model.verdict.judge import decide
from fleet_smi.model.verdict.process_group import summarize_processes
from fleet_smi.model.verdict.readings import MAX_WATTS, total_memory, video_load
from fleet_smi.model.verdict.steady_limits import NEVER_STEADY, SteadyLimits, steady_limits
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.throttling import throttle_kind
from fleet_smi.model.verdict.unattributed_load import is_load_over, is_power_low
from fleet_smi.model.verdict.verdict_input import VerdictInput
from fleet_smi.model.verdict.window import (
    FULL_PERCENT,
    MEAN_CEILING,
    MEAN_RELEASE,
    RECENT_SAMPLES,
    Window,
)

# One object for all GPUs that do nothing.
_QUIET = (0.0,) * RECENT_SAMPLES


class SampleStep(NamedTuple):
    """The step from the sample before to this one, in all devices of a node.

    `weight` is that of this sample in the mean utilisation.
    """

    at: float
    before_at: float
    weight: float
    thresholds: Thresholds


class LatestSample(NamedTuple):
    """The latest sample of a GPU, `None` where it has none, and the skew of its node's clock."""

    gpu: Gpu | None
    skew: float


NO_SAMPLE = LatestSample(None, 0.0)


class LiveStanding:
    """The standing of one GPU or instance after its latest sample.

    `judged` is the standing after the last sample that was judged in full or read. The attributes
    that are named as those of a `Window` are what steady samples have changed in it since.
    `position` is that of the GPU among those of its node. `changes` counts the samples that may
    have changed more of the verdict than the figures in its reason.
    """

    __slots__ = (
        "_limits",
        "changes",
        "full_from",
        "idle_from",
        "idle_users",
        "judged",
        "last_at",
        "load",
        "low_power_from",
        "mean",
        "peak",
        "position",
        "recent",
        "steady_samples",
        "worked_at",
    )

    def __init__(self, standing: Standing) -> None:
        self._limits = NEVER_STEADY
        self.position = self.changes = 0
        self._set(standing)

    def _set(self, standing: Standing) -> None:
        """Continue from a standing; no sample is steady until one was judged in full."""
        window = standing.window
        self.judged = standing
        self.changes += 1
        self.last_at = window.last_at
        self.steady_samples = 0
        self._limits = NEVER_STEADY
        self.load = window.load
        self.idle_from = window.idle_from
        self.worked_at = window.worked_at
        self.full_from = window.full_from
        self.low_power_from = window.low_power_from
        self.recent = _QUIET if window.recent == _QUIET else window.recent
        self.mean = window.mean
        self.peak = window.peak
        self.idle_users = window.idle_users

    @property
    def limits(self) -> SteadyLimits:
        """The limits within which the next samples are steady."""
        return self._limits

    @property
    def is_quiet(self) -> bool:
        """Whether the last few utilisations were zero."""
        return self.recent is _QUIET

    def has_same_use(self, gpu: Gpu, before: Gpu) -> bool:
        """Return whether only the readings of a GPU may differ from the sample before.

        Compared is all that a state depends on beside them.
        """
        group, throttled = self.judged.group, gpu.throttle_reasons
        return (
            summarize_processes(gpu.processes, group) is group
            and (gpu.fault is before.fault or gpu.fault == before.fault)
            and (gpu.lease is before.lease or gpu.lease == before.lease)
            and not gpu.instances
            and gpu.mig_mode is before.mig_mode
            and gpu.compute_mode == before.compute_mode
            and gpu.asleep is before.asleep
            and gpu.ecc_uncorrected == before.ecc_uncorrected
            and gpu.ecc_contained is before.ecc_contained
            and gpu.processes_hidden is before.processes_hidden
            and gpu.memory_total_bytes == before.memory_total_bytes
            and gpu.memory_shared is before.memory_shared
            and gpu.power_limit_watts == before.power_limit_watts
            and gpu.vendor == before.vendor
            and (not throttled or throttle_kind(throttled) is None)
        )

    def add_steady(
        self,
        busy_percent: float | None,
        encoder_percent: float | None,
        decoder_percent: float | None,
        memory_used_bytes: int | None,
        power_watts: float | None,
        step: SampleStep,
        processes: Sequence[Process] | None = None,
    ) -> bool:
        """Add a sample of the same use; where it may not be steady, do nothing and return false.

        The processes are needed only where several users share the GPU.
        """
        # In one function, as it runs for every GPU of every report. It does what `add_sample` does.
        at, thresholds, limits = step.at, step.thresholds, self._limits
        if at >= limits.until or step.before_at != self.last_at:
            return False
        mean, load, group, is_idle = self.mean, busy_percent, self.judged.group, False
        if load is None or mean is None:
            # Readings of the load that begin or end change how it is judged.
            if load is not mean or encoder_percent or decoder_percent:
                return False
        else:
            if not 0.0 <= load <= 100.0:
                return False
            if encoder_percent or decoder_percent:
                video = video_load(encoder_percent, None if group.desktop else decoder_percent)
                load = video if video > load else load
            idle_percent, idle_from = thresholds.idle_percent, self.idle_from
            capped = load if load < MEAN_CEILING * idle_percent else MEAN_CEILING * idle_percent
            if mean != capped:
                mean += (capped - mean) * step.weight
            is_idle = load < idle_percent
            if not is_idle and load < thresholds.noise_percent:
                release = 1.0 if idle_from is None else MEAN_RELEASE
                is_idle = mean < release * idle_percent
            if is_idle is (idle_from is None) and not limits.may_turn_idle:
                return False
        limit, share = limits.limit_watts, None
        if power_watts is not None and limit is not None and 0.0 <= power_watts <= MAX_WATTS:
            share = power_watts / limit
        is_low = share is not None and share < thresholds.idle_power_fraction
        if load is None and is_low is (self.low_power_from is None):
            return False  # without a load, power decides
        if not group.computes:
            least, used, over = limits.least_memory, memory_used_bytes, self.judged.window.over
            if least is not None and (used is None or not least <= used <= limits.most_memory):
                return False
            if (share is not None and share >= limits.power_threshold) is not over.power:
                return False
            if load or over.load or self.recent is not _QUIET:
                video = video_load(encoder_percent, decoder_percent)
                recent = self._next_recent(load, video, share, thresholds)
                if recent is None:
                    return False
                self.recent = recent
        elif group.shared:
            if processes is None:
                return False
            self.idle_users = track_idle_users(self.idle_users, processes, at, thresholds)
        self.last_at, self.load = at, load
        self.steady_samples += 1
        if load is not None:
            self.mean = mean
            if is_idle:
                if idle_from is None:
                    self.idle_from, self.full_from, self.peak = at, None, 0.0
                    self.changes += 1
                elif load > self.peak:
                    self.peak = load
            else:
                self.worked_at = at
                if idle_from is not None:
                    self.idle_from, self.peak = None, 0.0
                    self.changes += 1
                if load < FULL_PERCENT:
                    self.full_from = None
                elif self.full_from is None:
                    self.full_from = at
        if not is_low:
            self.low_power_from = None
        elif self.low_power_from is None:
            self.low_power_from = at
        return True

    def mark(self, memory_used_bytes: int | None, gpu: Gpu, thresholds: Thresholds) -> int | None:
        """Return a number that differs when more of the verdict may than figures in its reason.

        `None` where that may be so after any sample.
        """
        group = self.judged.group
        may_stall = self.full_from is not None and self.low_power_from is not None
        if may_stall or self.idle_users or group.desktop:
            return None  # notes that depend on time, or on the memory of a display
        held, used = group.memory_bytes, memory_used_bytes
        if used is not None and held is not None and used - held > GIB and group.has_members:
            is_noted = used - held > thresholds.memory_ceiling(total_memory(gpu))
            return -self.changes if is_noted else self.changes
        return self.changes

    def end_steadiness(self) -> None:
        """Let the next sample be judged in full: more of the device than its readings differs."""
        self._limits = NEVER_STEADY

    def judge(
        self,
        device: Gpu | Instance,
        gpu: Gpu,
        timing: SampleTiming,
        thresholds: Thresholds,
        before: LatestSample,
        instance_verdicts: tuple[Verdict, ...] = (),
    ) -> Standing:
        """Judge a sample in full, and return the standing after it; `before` is the one before.

        `device` is `gpu` itself, with the verdicts on its instances, or one of its instances.
        """
        previous = self.judged
        if self.steady_samples:
            previous = self._unworded(thresholds, before.skew)
        after = apply_sample(previous, device, gpu, timing, thresholds, instance_verdicts)
        # Where the verdict before remains, its words are needed as well.
        if self.steady_samples and (after.verdict is previous.verdict or after.candidate):
            previous = self.standing(thresholds, before)
            after = apply_sample(previous, device, gpu, timing, thresholds, instance_verdicts)
        self._set(after)
        if isinstance(device, Gpu):
            self._limits = steady_limits(after, device, thresholds)
        return after

    def standing(self, thresholds: Thresholds, latest: LatestSample) -> Standing:
        """Return the standing after the `latest` sample."""
        if self.steady_samples and latest.gpu is not None:
            judged, gpu = self._unworded(thresholds, latest.skew), latest.gpu
            inputs = VerdictInput(gpu, gpu, judged.window, self.last_at, thresholds, judged.group)
            verdict = decide(inputs, judged.verdict)
            if verdict.state == "broken" and judged.group.pids is None:
                verdict = with_last_known(verdict, judged)
            self.judged, self.steady_samples = replace(judged, verdict=verdict), 0
        return self.judged

    def _unworded(self, thresholds: Thresholds, skew: float) -> Standing:
        """Return the standing after the latest sample, with the verdict on an older one."""
        judged, at = self.judged, self.last_at
        before, group, returns = judged.window, judged.group, judged.returns
        # In the order of the fields, without names: this call is half as expensive.
        window = Window(
            at,
            before.samples + self.steady_samples,
            self.load,
            None if self.mean is None else at,
            self.idle_from,
            self.worked_at,
            self.full_from,
            self.low_power_from,
            before.pids,
            before.joined_at,
            self.recent,
            before.level,
            before.over,
            before.hardware,
            False,  # noqa: FBT003
            skew,
            self.mean,
            self.peak,
            before.began_at,
            None,
            self.idle_users,
            before.listed_at if group.pids is None else at,
            False,  # noqa: FBT003
            before.lease_holder,
        )
        if returns is not NO_RETURNS:
            returns = forget_returns(returns, at, thresholds)
        return Standing(window, judged.verdict, group, fell=judged.fell, returns=returns)

    def _next_recent(
        self, load: float | None, video_percent: float, share: float | None, thresholds: Thresholds
    ) -> tuple[float, ...] | None:
        """Return the last few loads; `None` where they cross their threshold."""
        over, recent = self.judged.window.over, self.recent
        if load is not None:
            recent = (*recent[1 - RECENT_SAMPLES :], load)
        is_unused = self.judged.group.unoccupied and not over.memory
        is_loaded = is_load_over(
            over.load,
            recent,
            thresholds,
            is_doubtful=is_unused and is_power_low(share, thresholds),
            video_percent=video_percent,
            is_load_known=load is not None,
        )
        if is_loaded is not over.load:
            return None
        return _QUIET if recent == _QUIET else recent
