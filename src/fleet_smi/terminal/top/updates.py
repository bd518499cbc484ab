"""Updates: what a feed delivers to the live screen, from its own threads."""

from collections.abc import Sequence

from msgspec import Struct

from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.history import Ribbon, Series, Strips
from fleet_smi.model.people import PeopleView
from fleet_smi.model.queue.view import QueueView
from fleet_smi.wire.event import Event, EventKind


class ViewArrived(Struct, frozen=True):
    """The whole fleet; `pending` names what has not answered yet."""

    view: FleetView
    pending: Sequence[str] = ()


class EventArrived(Struct, frozen=True):
    """An event of the hub's stream; `None` is a sign of life."""

    kind: EventKind
    event: Event | None


class PastArrived(Struct, frozen=True):
    """The fleet at a moment of the past."""

    at: float
    event: Event


class NodeArrived(Struct, frozen=True):
    """One node in full."""

    node: NodeView


class SeriesArrived(Struct, frozen=True):
    """The last minutes of the figures of a node."""

    series: Series


class PeopleArrived(Struct, frozen=True):
    """Who holds GPUs."""

    people: PeopleView


class QueueArrived(Struct, frozen=True):
    """Who waits for GPUs; `None` where the hub has no queue."""

    queue: QueueView | None


class HistoryArrived(Struct, frozen=True):
    """The strips of a node and the ribbon of the fleet, over the same range."""

    strips: Strips
    ribbon: Ribbon


class Trouble(Struct, frozen=True):
    """Why nothing arrives; `None` when it does again."""

    text: str | None


class ShowMessage(Struct, frozen=True):
    """A line for the user: the outcome of a request."""

    text: str


Update = (
    ViewArrived
    | EventArrived
    | PastArrived
    | NodeArrived
    | SeriesArrived
    | PeopleArrived
    | QueueArrived
    | HistoryArrived
    | Trouble
    | ShowMessage
)
