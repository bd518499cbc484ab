"""The standings of all GPUs and MIG instances of one node, and what a report changes in them."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fleet_smi.fleet.node_sample import NodeSample, is_slowed
from fleet_smi.fleet.state_transition import StateTransition, judged_changes
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.snapshot_figures import GPU_FIELDS
from fleet_smi.model.verdict.hysteresis import SampleTiming, Standing, apply_sample, shift_standing
from fleet_smi.model.verdict.live_standing import (
    NO_SAMPLE,
    LatestSample,
    LiveStanding,
    SampleStep,
)
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.verdict.window import max_gap_seconds, mean_weight

if TYPE_CHECKING:
    from fleet_smi.fleet.node_columns import NodeColumns, ReportLink

_BUSY, _ENCODER, _DECODER, _MEMORY, _POWER, _TEMPERATURE, _THROTTLES = [
    GPU_FIELDS.index(field)
    for field in (
        "busy_percent",
        "encoder_percent",
        "decoder_percent",
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
        "throttle_reasons",
    )
]


class DeviceStandings(Mapping[str, Standing]):
    """The standing of each GPU and instance after the latest report, by UUID.

    Each is made when it is read: this is no copy, and the next report changes it.
    `occupancy_changed` are the UUIDs of those whose processes, or their memory, differ from the
    report before, who are leased by somebody else, or whose use has ended or come back since, and
    of those that are gone. `columns` is what was judged together with other nodes, if anything was.
    """

    __slots__ = (
        "_at",
        "_gpus",
        "_live",
        "_of_gpus",
        "_placed",
        "_sample",
        "_skew",
        "_thresholds",
        "columns",
        "occupancy_changed",
    )

    def __init__(self, standings: Mapping[str, Standing] | None = None) -> None:
        self._live = {uuid: LiveStanding(each) for uuid, each in (standings or {}).items()}
        # Those of whole GPUs, in the order of the latest sample.
        self._of_gpus: list[LiveStanding] = []
        self._gpus: Sequence[Gpu] = ()
        self._sample: NodeSample | None = None  # the latest, if its figures are newer
        self._placed: NodeSample | None = None  # the one that advances with what is in columns
        self.columns: NodeColumns | None = None
        self._at = -inf
        self._skew = 0.0
        self._thresholds = DEFAULT_THRESHOLDS
        self.occupancy_changed: tuple[str, ...] = ()

    def __getitem__(self, uuid: str) -> Standing:
        self.catch_up()
        live = self._live[uuid]
        return (
            live.standing(self._thresholds, self._latest(live))
            if live.steady_samples
            else live.judged
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdict of each standing."""
        return {uuid: self[uuid].verdict for uuid in self._live}

    def judge(
        self, gpus: Sequence[Gpu], timing: SampleTiming, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        """Judge a sample of all GPUs, each by its window, and return the transitions."""
        self._leave_columns()
        step, others = self._step(timing, thresholds), gpus
        if step is not None and len(gpus) == len(self._gpus):
            others = [
                gpu
                for gpu, before, live in zip(gpus, self._gpus, self._of_gpus, strict=True)
                if gpu.uuid != before.uuid
                or not live.has_same_use(gpu, before)
                or not live.add_steady(
                    gpu.busy_percent,
                    gpu.encoder_percent,
                    gpu.decoder_percent,
                    gpu.memory_used_bytes,
                    gpu.power_watts,
                    step,
                    gpu.processes,
                )
            ]
        transitions: tuple[StateTransition, ...] = ()
        self.occupancy_changed = ()
        if others or len(gpus) != len(self._gpus):
            transitions = self._judge_in_full(gpus, others, timing, thresholds)
        self._at, self._skew, self._gpus, self._sample = timing.at, timing.skew, gpus, None
        self._thresholds = thresholds
        return transitions

    def judge_figures(
        self,
        sample: NodeSample,
        before: NodeSample,
        timing: SampleTiming,
        thresholds: Thresholds,
    ) -> tuple[StateTransition, ...]:
        """Like `judge`, of a sample in which only figures differ from the one before."""
        self._leave_columns()
        step, count = self._step(timing, thresholds), len(sample.figures.gpus[0])
        if step is None or count != len(self._of_gpus):
            return self.judge(sample.snapshot.gpus, timing, thresholds)
        changed = sample.changed_uses(before)
        return self._judge_some(sample, range(count), changed, step, timing)

    def judge_beside_columns(
        self,
        sample: NodeSample,
        positions: Sequence[int],
        changed: Sequence[int],
        timing: SampleTiming,
        thresholds: Thresholds,
    ) -> tuple[StateTransition, ...]:
        """Judge some GPUs of a sample whose others were steady in the columns of the node.

        The standings were up to date before these were advanced. Of the GPUs in `changed` the
        processes are used otherwise than in the sample before.
        """
        columns, step = self.columns, self._step(timing, thresholds)
        if columns is None or step is None:
            raise LookupError("no columns, or not the next sample")
        throttles = sample.figures.gpus[_THROTTLES]
        slowed = [position for position in positions if is_slowed(throttles[position])]
        transitions = self._judge_some(sample, positions, [*changed, *slowed], step, timing)
        columns.set_gpus(positions, self._of_gpus, sample, timing.at, thresholds)
        self._placed = sample
        return transitions

    def _judge_some(
        self,
        sample: NodeSample,
        positions: Sequence[int],
        changed: Sequence[int],
        step: SampleStep,
        timing: SampleTiming,
    ) -> tuple[StateTransition, ...]:
        """Judge the GPUs at some positions: in full if they have `changed` or are not steady."""
        live, columns = self._of_gpus, sample.figures.gpus
        for position in changed:
            live[position].end_steadiness()
        load, encoder, decoder = columns[_BUSY], columns[_ENCODER], columns[_DECODER]
        used, watts = columns[_MEMORY], columns[_POWER]
        others = [
            at
            for at in positions
            if not live[at].add_steady(
                load[at], encoder[at], decoder[at], used[at], watts[at], step
            )
        ]
        transitions: tuple[StateTransition, ...] = ()
        self.occupancy_changed = ()
        if others:
            gpus = sample.refresh_gpus(others)
            some = [gpus[position] for position in others]
            transitions = self._judge_in_full(gpus, some, timing, step.thresholds)
            self._gpus = gpus
        self._at, self._skew, self._sample = timing.at, timing.skew, sample
        return transitions

    def enter_columns(
        self,
        columns: "NodeColumns",
        sample: NodeSample,
        link: "ReportLink",
        thresholds: Thresholds,
    ) -> bool:
        """Copy the standings to where those of many nodes are judged; return whether they can be.

        The sample is the one that they were judged by.
        """
        live = self._of_gpus
        if not len(self._live) == len(live) == len(sample.base.gpus) > 0:
            return False  # there are instances, missing GPUs, or all standings are new
        columns.set(live, sample, self._at, link, thresholds)
        self.columns, self._placed = columns, sample
        return True

    @property
    def current_columns(self) -> "NodeColumns | None":
        """The columns that have the figures of the latest sample, if any do."""
        columns = self.columns
        return None if columns is None or columns.is_outdated else columns

    def catch_up(self) -> None:
        """Continue from the last sample that was judged in columns, if there was one since."""
        columns = self.columns
        if columns is not None and columns.ahead and self._placed is not None:
            self._at = columns.bring_up_to_date(self._of_gpus)
            self._sample = self._placed
            self._skew = self._at - self._sample.taken_at

    def _leave_columns(self) -> None:
        """Continue from what was judged in columns, and without them."""
        if self.columns is not None:
            self.catch_up()
            self.columns.is_outdated = True

    def _column(self, position: int) -> Sequence[Any]:
        """Return one figure of each GPU of the latest sample."""
        if (columns := self.current_columns) is not None:
            return columns.column(position)
        if self._sample is not None:
            column: Sequence[Any] = self._sample.figures.gpus[position]
            return column
        return [getattr(gpu, GPU_FIELDS[position]) for gpu in self._gpus]

    def marks(self) -> list[int | None]:
        """Return the mark of each GPU (`LiveStanding.mark`), in the order of the latest sample."""
        self.catch_up()
        thresholds, gpus, used = self._thresholds, self._gpus, self._column(_MEMORY)
        if not len(self._live) == len(self._of_gpus) == len(gpus) == len(used):
            return []  # there are instances, or all standings are new
        return [
            live.mark(memory, gpu, thresholds)
            for live, memory, gpu in zip(self._of_gpus, used, gpus, strict=True)
        ]

    def latest_states(self) -> list[tuple[Gpu, Verdict]]:
        """Return each GPU with its state, in the order of the latest sample; none with instances.

        No verdict has its texts. Of the figures only the memory and temperature of free GPUs are
        those of that sample.
        """
        self.catch_up()
        if not len(self._live) == len(self._of_gpus) == len(self._gpus):
            return []
        # A sample that changes the state is judged in full, so these have the current one.
        verdicts = [live.judged.verdict for live in self._of_gpus]
        if self._sample is None:
            return list(zip(self._gpus, verdicts, strict=True))
        columns = self._column(_MEMORY), self._column(_TEMPERATURE)
        return [
            (replace(gpu, memory_used_bytes=used, temperature_celsius=celsius), verdict)
            if verdict.state == "free"
            else (gpu, verdict)
            for gpu, verdict, used, celsius in zip(self._gpus, verdicts, *columns, strict=True)
        ]

    def judged_gpu(self, position: int) -> tuple[Gpu, Verdict]:
        """Return one GPU of the latest sample, and the verdict on it."""
        self.catch_up()
        latest = self._latest(live := self._of_gpus[position])
        if latest.gpu is None:
            raise LookupError(f"no GPU at {position}")
        return latest.gpu, live.standing(self._thresholds, latest).verdict

    def set_gpus(self, gpus: Sequence[Gpu]) -> None:
        """Set the GPUs of the latest sample, after a snapshot was made of it: to keep them once."""
        self.catch_up()
        if len(gpus) == len(self._gpus):
            self._gpus, self._sample = gpus, None

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        self._leave_columns()
        shifted = {uuid: shift_standing(standing, seconds) for uuid, standing in self.items()}
        self._live = {uuid: LiveStanding(standing) for uuid, standing in shifted.items()}
        self._of_gpus, self._gpus = [], ()
        self._at += seconds
        self._skew += seconds

    def _step(self, timing: SampleTiming, thresholds: Thresholds) -> SampleStep | None:
        """Return the step to a sample; `None` where windows restart."""
        at, before_at = timing.at, self._at
        elapsed = at - before_at
        if not 0.0 <= elapsed <= max_gap_seconds(timing.interval_seconds, thresholds):
            return None
        weight = mean_weight(elapsed, thresholds) if elapsed else 0.0
        return SampleStep(at, before_at, weight, thresholds)

    def _latest(self, live: LiveStanding) -> LatestSample:
        position = live.position
        gpu = self._gpus[position]
        if self._sample is not None:
            values = [column[position] for column in self._sample.figures.gpus]
            gpu = replace(gpu, **dict(zip(GPU_FIELDS, values, strict=True)))
        return LatestSample(gpu, self._skew)

    def _judge_in_full(
        self,
        gpus: Sequence[Gpu],
        others: Sequence[Gpu],
        timing: SampleTiming,
        thresholds: Thresholds,
    ) -> tuple[StateTransition, ...]:
        """Judge the `others` of these GPUs, whose samples were not steady."""
        before, after = self._live, dict[str, LiveStanding]()
        judged: dict[str, Standing | None] = {}

        def judge(device: Gpu | Instance, gpu: Gpu, verdicts: tuple[Verdict, ...] = ()) -> Verdict:
            live = before.get(device.uuid)
            if live is None:
                judged[device.uuid] = None
                standing = apply_sample(None, device, gpu, timing, thresholds, verdicts)
                live = LiveStanding(standing)
            else:
                judged[device.uuid] = live.judged
                latest = self._latest(live) if live.steady_samples else NO_SAMPLE
                standing = live.judge(device, gpu, timing, thresholds, latest, verdicts)
            after[device.uuid] = live
            return standing.verdict

        is_other = set(map(id, others))
        for gpu in gpus:
            if id(gpu) in is_other:
                # Instances first: the verdict on a GPU in MIG mode is made from theirs.
                judge(gpu, gpu, tuple([judge(instance, gpu) for instance in gpu.instances]))
            else:
                after[gpu.uuid] = before[gpu.uuid]
        self._live, self._of_gpus = after, [after[gpu.uuid] for gpu in gpus]
        for position, live in enumerate(self._of_gpus):
            live.position = position
        transitions, occupancy_changed = judged_changes(judged, after)
        self.occupancy_changed = (*occupancy_changed, *(before.keys() - after.keys()))
        return transitions
