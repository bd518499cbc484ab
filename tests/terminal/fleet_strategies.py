"""Hypothesis strategies for fleets: hostile names, missing and absurd figures."""

from collections.abc import Callable
from random import Random
from typing import TypeVar, get_args

from hypothesis import strategies as st

from fleet_smi.model.fleet import (
    STATES,
    FleetView,
    JudgedGpu,
    JudgedInstance,
    NodeView,
    Note,
    NoteKind,
    Verdict,
)
from fleet_smi.model.snapshot import (
    CollectorRun,
    Condition,
    Fault,
    FaultKind,
    Host,
    Outcome,
    Process,
    ProcessKind,
    Vendor,
)
from fleet_smi.model.units import GIB, MIB
from tests.terminal.samples import NOW, fleet

Item = TypeVar("Item")

# Surrogates cannot come out of a decoded report, and cannot be written as JSON.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HOSTILE = [
    "alice",
    "山田太郎" * 20,
    "\x1b[31mroot\x1b[0m",
    "=HYPERLINK(1)",
    "-1+1",
    'a,"b"\r\nc',
    "e\u0301" * 50,
    "\u202eecila",
    "x" * 500,
    "",
]
TEXT = ANY_TEXT | st.sampled_from(HOSTILE)
BYTES = [None, 0, 1, 1023, MIB - 1, MIB, 700 * MIB, GIB - 1, 80 * GIB, (1 << 38) + 7, 1 << 64]
PERCENT = [None, 0.0, 0.04, 0.5, 1.0, 9.5, 49.99, 99.5, 100.0, 1234.5, 1e12]
TIMES = [0.0, 0.9, NOW - 86_400 * 400, NOW - 59.9, NOW, NOW + 1, 2 * NOW, 1e18]
SMALL = [None, 0, 1, 9, 10, 999, 65_535, 100_000]


class FleetBuilder:
    """Builds fleets from a seed and some texts.

    A fleet has hundreds of figures. As one strategy each, they took a hundred times as long to
    draw as the code under test to run; here Hypothesis draws the sizes, the texts and a seed.
    """

    def __init__(self, seed: int, texts: list[str]) -> None:
        self._random = Random(seed)
        self._texts = texts + HOSTILE

    def fleet(self, gpu_counts: list[int]) -> FleetView:
        return fleet(*(self._node(count) for count in gpu_counts))

    def _node(self, gpu_count: int) -> NodeView:
        return NodeView(
            node_id=self._text(),
            name=self._text(),
            taken_at=self._time(),
            age_seconds=self._time(),
            silent=self._flag(),
            host=Host(driver_version=self._optional_text()),
            runs=self._several(2, self._run),
            gpus=tuple(self._gpu() for _ in range(gpu_count)),
        )

    def _run(self) -> CollectorRun:
        outcome = self._random.choice(get_args(Outcome))
        return CollectorRun(name=self._text(), outcome=outcome, seconds=0.1, detail=self._text())

    def _gpu(self) -> JudgedGpu:
        return JudgedGpu(
            uuid=self._text(),
            index=self._random.randint(0, 2000),
            vendor=self._random.choice(get_args(Vendor)),
            name=self._optional_text(),
            memory_used_bytes=self._bytes(),
            memory_total_bytes=self._bytes(),
            memory_shared=self._flag(),
            busy_percent=self._percent(),
            encoder_percent=self._percent(),
            decoder_percent=self._percent(),
            temperature_celsius=self._percent(),
            memory_temperature_celsius=self._percent(),
            fan_percent=self._percent(),
            power_watts=self._percent(),
            power_limit_watts=self._percent(),
            energy_joules=self._percent(),
            sm_clock_mhz=self._small(),
            memory_clock_mhz=self._small(),
            performance_state=self._optional_text(),
            throttle_reasons=self._random.choice((None, self._several(2, self._text))),
            ecc_uncorrected=self._small(),
            pcie_generation=self._small(),
            pcie_width=self._small(),
            asleep=self._flag(),
            instances=self._several(2, self._instance) if self._flag() else (),
            processes=self._processes(),
            fault=self._random.choice((None, self._fault())),
            unread=self._unread(),
            verdict=self._verdict(),
        )

    def _instance(self) -> JudgedInstance:
        return JudgedInstance(
            uuid=self._text(),
            profile=self._optional_text(),
            memory_used_bytes=self._bytes(),
            memory_total_bytes=self._bytes(),
            busy_percent=self._percent(),
            processes=self._processes(),
            unread=self._unread(),
            verdict=self._verdict(),
        )

    def _processes(self) -> tuple[Process, ...] | None:
        return self._random.choice((None, self._several(3, self._process)))

    def _process(self) -> Process:
        return Process(
            pid=self._random.randint(0, 1 << 31),
            kind=self._random.choice(get_args(ProcessKind)),
            gpu_memory_bytes=self._bytes(),
            user=self._optional_text(),
            uid=self._small(),
            group=self._optional_text(),
            name=self._optional_text(),
            command=self._optional_text(),
            started_at=self._random.choice((None, self._time())),
            busy_percent=self._percent(),
            container=self._optional_text(),
            pod=self._optional_text(),
            slurm_job=self._optional_text(),
            condition=self._random.choice((None, *get_args(Condition))),
            hidden=self._flag(),
        )

    def _fault(self) -> Fault:
        kind = self._random.choice(get_args(FaultKind))
        return Fault(kind=kind, detail=self._text(), remedy=self._optional_text())

    def _verdict(self) -> Verdict:
        return Verdict(
            state=self._random.choice(STATES),
            reason=self._text(),
            since=self._time(),
            notes=self._several(2, self._note),
            idle_seconds=self._random.choice((None, self._time())),
        )

    def _note(self) -> Note:
        return Note(self._random.choice(get_args(NoteKind)), self._text())

    def _unread(self) -> dict[str, str]:
        return {name: self._text() for name in ("busy_percent", "processes") if self._flag()}

    def _text(self) -> str:
        return self._random.choice(self._texts)

    def _optional_text(self) -> str | None:
        return self._random.choice((None, self._text()))

    def _bytes(self) -> int | None:
        return self._random.choice(BYTES)

    def _percent(self) -> float | None:
        return self._random.choice(PERCENT)

    def _small(self) -> int | None:
        return self._random.choice(SMALL)

    def _time(self) -> float:
        return self._random.choice(TIMES)

    def _flag(self) -> bool:
        return self._random.random() < 0.5

    def _several(self, most: int, make: Callable[[], Item]) -> tuple[Item, ...]:
        return tuple(make() for _ in range(self._random.randint(0, most)))


FLEET: st.SearchStrategy[FleetView] = st.builds(
    lambda seed, texts, gpu_counts: FleetBuilder(seed, texts).fleet(gpu_counts),
    st.integers(0, 1 << 32),
    st.lists(ANY_TEXT, max_size=4),
    st.lists(st.integers(0, 4), max_size=3),
)
