"""Applies what a feed delivers to the data of the live screen."""

from fleet_smi.terminal.top.nodes import FleetNodes
from fleet_smi.terminal.top.state import ScreenState, TopData
from fleet_smi.terminal.top.updates import (
    EventArrived,
    HistoryArrived,
    NodeArrived,
    PastArrived,
    PeopleArrived,
    QueueArrived,
    SeriesArrived,
    Trouble,
    Update,
    ViewArrived,
)


def apply_update(data: TopData, state: ScreenState, update: Update, monotonic: float) -> None:
    """Apply one update, which arrived at this time by the monotonic clock."""
    match update:
        case ViewArrived(view=view):
            data.live.apply_view(view)
            for node in view.nodes:
                if node.age_seconds is not None:
                    data.trends.record(node, view.taken_at - node.age_seconds)
            _arrived(data, monotonic)
        case EventArrived(kind=kind, event=event):
            if event is not None:
                data.live.apply_event(kind, event)
            _arrived(data, monotonic)
        case PastArrived(at=at, event=event):
            # Another moment may have been chosen meanwhile.
            if state.cursor is None or state.cursor == at:
                past = FleetNodes()
                past.apply_event("fleet", event)
                data.past, state.at = past, at
        case NodeArrived(node=node):
            data.details = node
            if state.at is None and node.age_seconds is not None:
                # By the clock of the hub, as its history; the node's own may differ.
                data.trends.record(node, data.live_now(monotonic) - node.age_seconds)
        case SeriesArrived(series=series):
            data.trends.keep_only(series.gpus)
            data.trends.fill(series)
        case PeopleArrived(people=people):
            data.people = people
        case QueueArrived(queue=queue):
            data.queue = queue
        case HistoryArrived(strips=strips, ribbon=ribbon):
            data.strips, data.ribbon = strips, ribbon
        case Trouble(text=text):
            data.trouble = text
    show_moment(data, state)


def _arrived(data: TopData, monotonic: float) -> None:
    data.trouble = None
    data.arrived_at = monotonic


def show_moment(data: TopData, state: ScreenState) -> None:
    """Show the present or the past, and arrange it."""
    data.fleet = data.live if state.at is None or data.past is None else data.past
    data.arrangement.update(data.fleet)
