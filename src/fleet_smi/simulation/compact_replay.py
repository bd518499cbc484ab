"""Compact reports of a simulated node, encoded in advance: a few seconds of figures, replayed.

A load test has to cost less than the hub that it tests. So the figures of the next seconds are made
at once and sent forwards and backwards for a minute; only the head of a report is made each time.
Jobs begin and end at the next renewal.
"""

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import Column, Columns, SnapshotFigures
from fleet_smi.simulation.scenario import FleetScenario
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.wire.compact import (
    CompactReport,
    SnapshotParts,
    compact_parts,
    run_checksum,
    split,
)
from fleet_smi.wire.compact_codec import encode_head, encode_tail
from fleet_smi.wire.figure_codes import NoCode
from fleet_smi.wire.packed import PackedFigures, pack_figures, pack_head

_MAX_SAMPLES = 8
_FULL_REPORT_SECONDS = 300.0
_Positions = tuple[frozenset[int], ...]
"""The columns of GPUs, instances and processes that are sent."""
_NONE: _Positions = (frozenset(), frozenset(), frozenset())


class CompactReplay:
    """Makes the compact reports of one node; those of `replay_seconds` are made together."""

    def __init__(self, scenario: FleetScenario, index: int, replay_seconds: float) -> None:
        self._scenario, self._index, self._replay_seconds = scenario, index, replay_seconds
        # Random, and not by the number of the node: full reports and renewals, with which jobs
        # begin and end, are spread over the minutes, from the first one on.
        rng = seeded_rng(scenario.nodes[index].node_id, "full")
        self._full_seconds = _FULL_REPORT_SECONDS * (0.5 + 0.5 * rng.random())
        self._first_share: float | None = rng.random()
        self._full: SnapshotParts | None = None
        self._hub, self._run, self._base = "", 0, 0
        self._full_at = self._renew_at = 0.0
        self._sent = _NONE
        self._tails: list[PackedFigures | bytes] = []
        self._position, self._step = 0, 1

    def begin(self, full: Snapshot, hub: str) -> None:
        """Build on a snapshot that this hub has acknowledged."""
        self._full, self._hub, self._base = split(full), hub, full.sequence
        self._run = run_checksum(full.run_id or "")
        self._full_at, self._renew_at = full.taken_at + self._full_seconds, 0.0
        self._sent = _NONE

    def stop(self) -> None:
        """Send full reports until `begin`."""
        self._full = None

    def report(self, at: float, sequence: int) -> bytes | None:
        """Return the compact report of a time, `None` if it has to be a full one.

        The next one builds on it.
        """
        if self._full is None or at >= self._full_at:
            return None
        if at >= self._renew_at and not self._renew(self._full, at):
            return None
        head, tail = (
            (at, self._hub, self._run, self._base, sequence, at),
            self._tails[self._position],
        )
        body = encode_head(*head) + tail if isinstance(tail, bytes) else pack_head(tail, *head)
        self._base = sequence
        self._move()
        return body

    def _move(self) -> None:
        # Forwards and backwards: no figure jumps.
        if not 0 <= self._position + self._step < len(self._tails):
            self._step = -self._step
        if len(self._tails) > 1:
            self._position += self._step

    def _renew(self, full: SnapshotParts, at: float) -> bool:
        """Make the next reports; return false if they do not only differ in figures."""
        scenario, interval = self._scenario, self._scenario.interval_seconds
        count = max(1, min(_MAX_SAMPLES, int(self._replay_seconds / interval)))
        moments = (at + number * interval for number in range(count))
        parts = (split(scenario.snapshot(self._index, moment, 0)) for moment in moments)
        alike = list(takewhile(lambda each: each.static == full.static, parts))
        # A column that was sent once is always sent: the hub has another value than that of the
        # full report.
        self._sent = _changing(full.figures, [each.figures for each in alike], self._sent)
        blank = full._replace(figures=_without(full.figures, self._sent))
        reports = [compact_parts(blank, each) for each in alike]
        if not reports or None in reports:
            return False
        self._tails = [_encoded(each) for each in reports if each is not None]
        self._position, self._step = 0, 1
        share, self._first_share = self._first_share, None
        self._renew_at = at + self._replay_seconds * (1.0 if share is None else share)
        return True


def _encoded(report: CompactReport) -> PackedFigures | bytes:
    try:
        return pack_figures(report)
    except NoCode:
        return encode_tail(report)


def _changing(
    full: SnapshotFigures, later: Sequence[SnapshotFigures], sent: _Positions
) -> _Positions:
    def positions(
        columns: Columns, others: Sequence[Columns], known: frozenset[int]
    ) -> frozenset[int]:
        changing = [
            position
            for position, column in enumerate(columns)
            if any(other[position] != column for other in others)
        ]
        return known.union(changing)

    return (
        positions(full.gpus, [each.gpus for each in later], sent[0]),
        positions(full.instances, [each.instances for each in later], sent[1]),
        positions(full.processes, [each.processes for each in later], sent[2]),
    )


def _without(figures: SnapshotFigures, sent: _Positions) -> SnapshotFigures:
    """Return the figures with nothing in these columns, so that all others differ from them."""

    def blanked(columns: Columns, positions: frozenset[int]) -> Columns:
        blank: Column = ()
        return tuple([blank if at in positions else column for at, column in enumerate(columns)])

    return replace(
        figures,
        host=(),
        run_seconds=(),
        gpus=blanked(figures.gpus, sent[0]),
        instances=blanked(figures.instances, sent[1]),
        processes=blanked(figures.processes, sent[2]),
    )
