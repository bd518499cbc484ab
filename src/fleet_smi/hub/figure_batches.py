"""Packed reports of many nodes, applied together: those that are steady, without looking at each.

What a report of figures does to its node is said in `figure_delivery.py`; here it is done for all
that came within a moment. Reports that are not the next of their node, or not steady, are left to
that way.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fleet_smi.fleet.figure_columns import FigureColumns, NodeColumns, ReportLink
from fleet_smi.fleet.fleet_change import node_change
from fleet_smi.fleet.node_sample import PackedSample
from fleet_smi.fleet.packed_batch import PackedBatch, can_be_packed
from fleet_smi.hub.figure_delivery import FigureRoute
from fleet_smi.model.snapshot_figures import PROCESS_FIELDS
from fleet_smi.model.verdict.window import max_gap_seconds
from fleet_smi.wire.compact import run_checksum
from fleet_smi.wire.packed_layout import PROCESSES_AT
from fleet_smi.wire.report import MAX_AGE_SECONDS

if TYPE_CHECKING:
    from fleet_smi.hub.hub import Hub

# What the summary of a GPU's processes depends on.
_USES = [PROCESSES_AT + PROCESS_FIELDS.index(field) for field in ("gpu_memory_bytes", "condition")]
_USES_MASK = sum([1 << position for position in _USES])


class PackedReport(NamedTuple):
    """A packed report, the route of its node, and the address that it came from."""

    body: bytes
    route: FigureRoute
    address: str | None


class FigureBatches:
    """Applies packed reports to the nodes of one hub."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._fleet = hub.fleet
        self._columns: dict[int, FigureColumns] = {}

    def apply(self, reports: Sequence[PackedReport], max_age_seconds: float) -> list[int | None]:
        """Apply reports of as many nodes; return how many rows of the history each has caused.

        `None` is for those that are to be applied one by one.
        """
        results: list[int | None] = [None] * len(reports)
        if not self._hub.recording_gate.is_open():
            return results
        groups: dict[int, list[int]] = {}
        for number, (body, route, _) in enumerate(reports):
            columns = route.node.standings.columns
            if columns is None or columns.is_outdated:
                columns = self._enter(route)
            if (
                columns is not None
                and can_be_packed(body)
                and self._hub.is_owned(route.node.node_id, route.via)
            ):
                groups.setdefault(columns.columns.gpu_count, []).append(number)
        now = self._hub.read_clock() if groups else 0.0
        for gpu_count, numbers in groups.items():
            some = [reports[number] for number in numbers]
            rows = self._apply_group(self._columns[gpu_count], some, now, max_age_seconds)
            for number, count in zip(numbers, rows, strict=True):
                results[number] = count
        return results

    def _enter(self, route: FigureRoute) -> NodeColumns | None:
        """Copy a node to its place; whatever ends its being steady makes that outdated again."""
        node, sample, standings = route.node, route.node.sample, route.node.standings
        if (
            sample is None
            or node.inventory.missing
            or node.unrecorded_since is not None
            or node.failures
        ):
            return None
        base, columns, runs = sample.base, standings.columns, node.sequences.runs
        if (
            base.run_id is None
            or not runs
            or runs[-1].run_id != base.run_id
            or runs[-1].lasts[-1] != sample.sequence
            or route.via not in node.vias
        ):
            return None
        gpu_count = len(base.gpus)
        if columns is None or columns.columns.gpu_count != gpu_count:
            if gpu_count not in self._columns:
                self._columns[gpu_count] = FigureColumns(gpu_count)
            columns = NodeColumns(self._columns[gpu_count])
        thresholds = self._fleet.thresholds
        gap_seconds = max_gap_seconds(base.interval_seconds, thresholds)
        link = ReportLink(run_checksum(base.run_id), gap_seconds)
        has_entered = standings.enter_columns(columns, sample, link, thresholds)
        return columns if has_entered else None

    def _apply_group(
        self,
        columns: FigureColumns,
        reports: Sequence[PackedReport],
        now: float,
        max_age_seconds: float,
    ) -> list[int | None]:
        batch = PackedBatch([report.body for report in reports])
        ages = batch.sent_at - batch.taken_at
        ages[~((ages > 0.0) & (ages <= MAX_AGE_SECONDS))] = 0.0
        batch.valid &= ages <= max_age_seconds
        places = [report.route.node.standings.columns for report in reports]
        sequences = batch.sequence.tolist()
        _check_uses(batch, reports, sequences)
        at_places = np.array([place.place for place in places if place is not None])
        steady, at = columns.apply(at_places, batch, ages, now, self._fleet.thresholds)
        followed = [
            each for each, is_steady in zip(reports, steady.tolist(), strict=True) if is_steady
        ]
        # First: what is left behind by a bug must not be taken for something that is unchanged.
        self._fleet.mark_all_applied([each.route.node.node_id for each in followed])
        self._hub.reports_received += len(followed)
        is_closed = self._hub.outputs.has_closed
        return [
            self._follow(report, PackedSample(report.body, sequence, taken_at), own_at, is_closed)
            if is_steady
            else None
            for report, is_steady, sequence, taken_at, own_at in zip(
                reports,
                steady.tolist(),
                sequences,
                batch.taken_at.tolist(),
                at.tolist(),
                strict=True,
            )
        ]

    def _follow(
        self, report: PackedReport, packed: PackedSample, at: float, is_closed: bool
    ) -> int:
        """Do for one node what else follows from a steady report; return the rows it caused."""
        hub, (_, route, address) = self._hub, report
        node, history, rows = route.node, hub.history, 0
        try:
            route.machine.observe(at, route.timeout)
            self._fleet.figure_reports.follow(node, packed, at, route.timeout)
            node.address = address
            if is_closed or (history is not None and not history.steady_reports.try_record(node)):
                row_count = 0 if history is None else history.recorded_rows
                hub.outputs.pass_on(node_change(node, route.via, ()), is_recorded=True)
                rows = 0 if history is None else history.recorded_rows - row_count
            if hub.delivery_failures:
                hub.record_success(route.via)
        except Exception as error:  # noqa: BLE001  # one node must not stop the others
            node.standings.columns = None  # they may be further than the rest of the node
            self._fleet.faults.record("report", node.node_id, error)
        return rows


def _check_uses(
    batch: PackedBatch, reports: Sequence[PackedReport], sequences: Sequence[int]
) -> None:
    """Leave out reports whose processes may be judged otherwise than those of the one before."""
    ranges = [batch.byte_ranges(position) for position in _USES]
    # The columns are there only if they differ from the report before, or it had them too.
    for number in np.flatnonzero(batch.sent & _USES_MASK).tolist():
        body, node = reports[number].body, reports[number].route.node
        uses = tuple([body[begins[number] : ends[number]] for begins, ends in ranges])
        columns, sample = node.standings.columns, node.sample
        if columns is not None and sample is not None:
            if columns.uses != (sample.sequence, uses):
                batch.valid[number] = False
            columns.uses = sequences[number], uses
