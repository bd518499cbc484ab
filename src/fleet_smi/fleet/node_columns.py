"""The protocol between the fleet and a node whose figures are stored in shared columns.

A hub has such columns (`hub/figure_columns.py`); commands have none.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.model.snapshot_figures import HostFigures
from fleet_smi.model.verdict.live_standing import LiveStanding
from fleet_smi.model.verdict.thresholds import Thresholds


class ReportLink(NamedTuple):
    """The checksum of a node's run, and how much later its next report may come."""

    run: int
    gap_seconds: float


class NodeColumns(Protocol):
    """The place of one node.

    Steady reports are judged here; the node's standings are brought up to date when somebody reads
    them. Where they were judged otherwise since, this `is_outdated` until it is `set` again.
    """

    is_outdated: bool

    @property
    def gpu_count(self) -> int:
        """The number of its GPUs."""

    @property
    def ahead(self) -> int:
        """How many samples since the standings were brought up to date, of any GPU at most."""

    def set(
        self,
        live: Sequence[LiveStanding],
        sample: NodeSample,
        at: float,
        link: ReportLink,
        thresholds: Thresholds,
    ) -> None:
        """Copy a node after a sample that was judged at `at`."""

    def set_gpus(
        self,
        positions: Sequence[int],
        live: Sequence[LiveStanding],
        sample: NodeSample,
        at: float,
        thresholds: Thresholds,
    ) -> None:
        """Copy the GPUs at these positions after a sample that was judged at `at`."""

    def bring_up_to_date(self, live: Sequence[LiveStanding]) -> float:
        """Set in the standings what steady reports have changed; return when the last was taken."""

    def column(self, position: int) -> list[Any]:
        """Return one of the figures that are here, by its position among those of a GPU."""

    def packed_rows(self, positions: tuple[int, ...]) -> bytes:
        """Return some of these figures, GPU by GPU, as four-byte floats; NaN is not measured."""

    @property
    def host(self) -> HostFigures:
        """The figures of the host that are here; NaN is not measured."""
