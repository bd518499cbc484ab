"""Packed reports of many nodes, applied together: those that are steady, without looking at each.

What a report of figures does to its node is said in `figure_delivery.py`; here it is done for all
that came within a moment. Reports that are not the next of their node, or not steady, are left to
that way.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fleet_smi.fleet.fleet_change import node_change
from fleet_smi.fleet.node_columns import ReportLink
from fleet_smi.fleet.node_sample import PackedSample
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.hub.figure_columns import FigureColumns, JudgedBatch
from fleet_smi.hub.figure_delivery import FigureRoute
from fleet_smi.hub.packed_batch import PackedBatch
from fleet_smi.hub.packed_layouts import PackedLayout, layout_key
from fleet_smi.hub.placed_node import PlacedNode
from fleet_smi.model.verdict.window import max_gap_seconds
from fleet_smi.wire.compact import run_checksum
from fleet_smi.wire.packed import packed_sequence
from fleet_smi.wire.report import MAX_AGE_SECONDS

if TYPE_CHECKING:
    from fleet_smi.hub.hub import Hub


_NONE: list[int] = []


class BatchedReports(NamedTuple):
    """Packed reports, the routes of their nodes, and the addresses that they came from.

    All are of different nodes.
    """

    bodies: list[bytes]
    routes: list[FigureRoute]
    addresses: list[str | None]

    @classmethod
    def empty(cls) -> "BatchedReports":
        """Return none, to be added to."""
        return cls([], [], [])


class _Group:
    """Those reports whose nodes have the same number of GPUs.

    `changed` has by position the GPUs whose processes are used otherwise than before.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.bodies: list[bytes] = []
        self.layouts: list[PackedLayout] = []
        self.places: list[int] = []
        self.changed: dict[int, list[int]] = {}


class _Followed(NamedTuple):
    """A report that was judged: which one, and the GPUs for which it was not steady."""

    number: int
    packed: PackedSample
    positions: Sequence[int]
    changed: Sequence[int]


class FigureBatches:
    """Applies packed reports to the nodes of one hub."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._fleet = hub.fleet
        self._columns: dict[int, FigureColumns] = {}

    def apply(self, reports: BatchedReports, max_age_seconds: float) -> list[int | None]:
        """Apply reports of as many nodes; return how many rows of the history each has caused.

        `None` is for those that are to be applied one by one.
        """
        results: list[int | None] = [None] * len(reports.bodies)
        if not self._hub.recording_gate.is_open():
            return results
        for each in self._columns.values():
            each.layouts.prepare()
        groups: dict[FigureColumns, _Group] = {}
        is_owned = self._hub.is_owned
        for number, (body, route) in enumerate(zip(reports.bodies, reports.routes, strict=True)):
            node = route.node
            own = node.standings.columns
            if own is None or own.is_outdated:
                own = self._enter(route)
            if not isinstance(own, PlacedNode):
                continue
            columns = own.columns
            layout = columns.layouts.find(layout_key(body))
            if (
                layout is None
                or len(body) != layout.size
                or (layout is not own.layout and not own.accepts(layout))
                or not is_owned(node.node_id, route.via)
            ):
                continue
            changed = _changed_uses(body, layout, route, own) if layout.uses else _NONE
            if changed is None:
                continue
            group = groups.get(columns)
            if group is None:
                group = groups[columns] = _Group()
            if changed:
                group.changed[len(group.numbers)] = changed
            group.numbers.append(number)
            group.bodies.append(body)
            group.layouts.append(layout)
            group.places.append(own.place)
        now = self._hub.read_clock() if groups else 0.0
        for columns, group in groups.items():
            self._apply_group(columns, group, reports, results, now, max_age_seconds)
        return results

    def _enter(self, route: FigureRoute) -> PlacedNode | None:
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
        if not isinstance(columns, PlacedNode) or columns.gpu_count != gpu_count:
            if gpu_count not in self._columns:
                self._columns[gpu_count] = FigureColumns(gpu_count)
            columns = PlacedNode(self._columns[gpu_count])
        thresholds = self._fleet.thresholds
        gap_seconds = max_gap_seconds(base.interval_seconds, thresholds)
        link = ReportLink(run_checksum(base.run_id), gap_seconds)
        has_entered = standings.enter_columns(columns, sample, link, thresholds)
        return columns if has_entered else None

    def _apply_group(
        self,
        columns: FigureColumns,
        group: _Group,
        reports: BatchedReports,
        results: list[int | None],
        now: float,
        max_age_seconds: float,
    ) -> None:
        batch = PackedBatch(group.bodies, group.layouts, columns.layouts)
        ages = batch.sent_at - batch.taken_at
        ages[~((ages > 0.0) & (ages <= MAX_AGE_SECONDS))] = 0.0
        batch.valid &= ages <= max_age_seconds
        places = np.array(group.places)
        judged = columns.judge(places, batch, ages, now, self._fleet.thresholds)
        for position, gpus in group.changed.items():
            judged.steady[position, gpus] = False
        unsteady = self._unsteady(judged, group, reports)
        columns.apply(judged)
        followed = [
            _Followed(
                number,
                PackedSample(body, sequence, taken_at, at),
                unsteady.get(position, _NONE),
                group.changed.get(position, _NONE),
            )
            for position, (is_next, number, body, sequence, taken_at, at) in enumerate(
                zip(
                    judged.is_next.tolist(),
                    group.numbers,
                    group.bodies,
                    batch.sequence.tolist(),
                    batch.taken_at.tolist(),
                    judged.at.tolist(),
                    strict=True,
                )
            )
            if is_next
        ]
        # First: what is left behind by a bug must not be taken for something that is unchanged.
        routes = reports.routes
        self._fleet.mark_all_applied([routes[each.number].node.node_id for each in followed])
        self._hub.reports_received += len(followed)
        self._follow(followed, reports, results)

    def _unsteady(
        self, judged: JudgedBatch, group: _Group, reports: BatchedReports
    ) -> dict[int, list[int]]:
        """Return by position the GPUs that are not steady, after their nodes have caught up."""
        found: dict[int, list[int]] = {}
        if not judged.steady.all():
            for position in (judged.is_next & ~judged.steady.all(axis=1)).nonzero()[0].tolist():
                found[position] = (~judged.steady[position]).nonzero()[0].tolist()
                reports.routes[group.numbers[position]].node.standings.catch_up()
        return found

    def _follow(
        self, followed: Sequence[_Followed], reports: BatchedReports, results: list[int | None]
    ) -> None:
        """Do for each node what else follows from its report."""
        hub, routes, addresses = self._hub, reports.routes, reports.addresses
        history, is_closed = hub.history, hub.outputs.has_closed
        record = None if history is None else history.steady_reports.try_record
        thresholds = self._fleet.thresholds
        for number, packed, positions, changed in followed:
            node, _, machine, _, via, timeout = route = routes[number]
            results[number] = 0
            try:
                machine.observe(packed.at, timeout)
                node.address = addresses[number]
                if positions:
                    transitions = node.follow_partly(
                        packed, timeout, positions, changed, thresholds
                    )
                    results[number] = self._pass_on(route, transitions)
                else:
                    node.follow(packed, timeout)
                    if is_closed or (record is not None and not record(node)):
                        results[number] = self._pass_on(route, ())
                if hub.delivery_failures:
                    hub.record_success(via)
            except Exception as error:  # noqa: BLE001  # one node must not stop the others
                node.standings.columns = None  # they may be further than the rest of the node
                self._fleet.faults.record("report", node.node_id, error)

    def _pass_on(self, route: FigureRoute, transitions: tuple[StateTransition, ...]) -> int:
        """Record the report of a node as any other is; return the rows it caused."""
        hub, history = self._hub, self._hub.history
        row_count = 0 if history is None else history.recorded_rows
        hub.outputs.pass_on(node_change(route.node, route.via, transitions), is_recorded=True)
        return 0 if history is None else history.recorded_rows - row_count


def _changed_uses(
    body: bytes, layout: PackedLayout, route: FigureRoute, columns: PlacedNode
) -> list[int] | None:
    """Return the GPUs whose processes are used otherwise than before; `None` if not known."""
    # The columns are there only if they differ from the report before, or it had them too.
    uses, sample, before = (
        tuple([body[own] for own in layout.uses]),
        route.node.sample,
        columns.uses,
    )
    changed: list[int] | None = None
    if before is not None and sample is not None and before[0] == sample.sequence:
        changed = _NONE if before[1] == uses else columns.changed_uses(uses)
    columns.uses = packed_sequence(body), uses
    return changed
