"""State of the live screen: what has arrived, what is chosen, and how it is shown."""

from typing import Literal

from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.history import Ribbon, Strips
from fleet_smi.model.node_names import make_names_unique
from fleet_smi.model.people import PeopleView
from fleet_smi.model.queue.view import QueueView
from fleet_smi.terminal.top.arrangement import Arrangement
from fleet_smi.terminal.top.completion import Suggestion, known_words
from fleet_smi.terminal.top.line_editor import LineEditor
from fleet_smi.terminal.top.nodes import FleetNodes, NodeItem
from fleet_smi.terminal.top.requests import Question
from fleet_smi.terminal.top.trends import Trends

View = Literal["fleet", "node", "people", "history", "queue"]
Pane = Literal["rows", "processes"]
_TWO_ROWS_NODES = 16  # up to so many nodes, each has two rows where there is room


class TopData:
    """What has arrived from the feed."""

    def __init__(self, source: str, *, has_history: bool) -> None:
        self.source = source
        self.has_history = has_history
        self.live = self.fleet = FleetNodes()
        """The present, and what is shown: the present or a moment of the past."""
        self.past: FleetNodes | None = None
        self.arrived_at = 0.0
        """When the last update arrived, by the monotonic clock."""
        self.arrangement = Arrangement()
        self.trends = Trends()
        self.details: NodeView | None = None
        """The chosen node in full, where the fleet has only a part of each node."""
        self.details_failed: str | None = None
        self.people: PeopleView | None = None
        self.strips: Strips | None = None
        self.ribbon: Ribbon | None = None
        self.queue: QueueView | None = None
        """Who waits; `None` where the fleet has no queue."""
        self.trouble: str | None = None
        """Why nothing arrives now."""
        self._names: dict[str, str] = {}
        self._words: list[Suggestion] = []
        self._named_version = self._words_version = -1

    def live_now(self, monotonic: float) -> float:
        """Return the time by the clock of the fleet, which may not be that of this machine."""
        return self.live.taken_at + max(0.0, monotonic - self.arrived_at)

    def shown_now(self, monotonic: float) -> float:
        """Return the time of what is shown, which durations refer to."""
        return self.live_now(monotonic) if self.fleet is self.live else self.fleet.taken_at

    def name(self, node_id: str) -> str:
        """Return the name of a node, unique in the fleet."""
        if self._named_version != self.fleet.roster_version:
            self._named_version = self.fleet.roster_version
            self._names = make_names_unique({item.node_id: item.name for item in self.fleet})
        return self._names.get(node_id, node_id)

    @property
    def words(self) -> list[Suggestion]:
        """The words that complete a filter."""
        if self._words_version != self.fleet.roster_version:
            self._words_version = self.fleet.roster_version
            self._words = known_words(self.fleet)
        return self._words

    def node_view(self, node_id: str | None) -> NodeView | None:
        """Return a node with all that is known of it."""
        if self.details is not None and self.details.node_id == node_id:
            return self.details
        item = self.fleet.get(node_id)
        return None if item is None else item.view


class ScreenState:
    """What is chosen and how it is shown."""

    def __init__(self, *, view: View = "fleet", filter_text: str = "", sort: str = "name") -> None:
        self.columns, self.rows = 80, 24
        self.view: View = view
        self.pane: Pane = "rows"
        self.node_id: str | None = None
        self.gpu_uuid: str | None = None
        self.process_key: tuple[int, str] | None = None
        self.first_row = 0
        self.first_process = 0
        self.first_line = 0
        """The first line that is shown of a view that is only text."""
        self.sort = sort
        self.process_sort = "memory"
        self.tree = False
        self.dense: bool | None = None
        """Whether a node has one row; `None` decides by the size of fleet and screen."""
        self.filter_text = filter_text
        self.editor: LineEditor | None = None
        self.suggestion_at = 0
        self.is_help = False
        self.question: Question | None = None
        self.message = ""
        self.at: float | None = None
        """The moment of the past that is shown."""
        self.cursor: float | None = None
        """The moment at the cursor of the history, which may still be loading."""
        self.span_seconds = 6 * 3600.0

    def node_rows(self, data: TopData) -> int:
        """Return how many screen rows a node has."""
        if self.dense is not None:
            return 1 if self.dense else 2
        few = len(data.fleet) <= _TWO_ROWS_NODES
        return 2 if few and self.rows >= 36 and self.rows - 14 >= 2 * len(data.fleet) else 1


def chosen_item(state: ScreenState, data: TopData) -> NodeItem | None:
    """Return the chosen node; the first that is shown where it is gone."""
    item = data.fleet.get(state.node_id)
    ids = data.arrangement.node_ids
    if item is not None and (state.view == "node" or not ids or item.node_id in _index(data)):
        return item
    return data.fleet.get(ids[0]) if ids else None


def chosen_gpu(state: ScreenState, node: NodeView | None) -> JudgedGpu | None:
    """Return the chosen GPU of a node; its first where it is gone."""
    if node is None or not node.gpus:
        return None
    found = [gpu for gpu in node.gpus if gpu.uuid == state.gpu_uuid]
    return found[0] if found else node.gpus[0]


def _index(data: TopData) -> dict[str, int]:
    return data.arrangement.positions


def move_node(state: ScreenState, data: TopData, step: int) -> None:
    """Choose another node, so many rows further; the GPU stays the one of the same number."""
    ids = data.arrangement.node_ids
    item = chosen_item(state, data)
    if not ids or item is None:
        return
    at = _index(data).get(item.node_id, 0)
    gpu = chosen_gpu(state, item.view)
    column = 0 if gpu is None else item.view.gpus.index(gpu)
    choose_node(state, data, ids[max(0, min(len(ids) - 1, at + step))], column)


def choose_node(state: ScreenState, data: TopData, node_id: str, column: int = 0) -> None:
    """Choose a node, and its GPU of this position."""
    state.node_id = node_id
    item = data.fleet.get(node_id)
    gpus = () if item is None else item.view.gpus
    state.gpu_uuid = gpus[min(column, len(gpus) - 1)].uuid if gpus else None
    state.process_key = None
    state.first_process = 0


def move_gpu(state: ScreenState, data: TopData, step: int) -> None:
    """Choose another GPU of the node."""
    node = data.node_view(state.node_id)
    gpu = chosen_gpu(state, node)
    if node is None or gpu is None:
        return
    at = [each.uuid for each in node.gpus].index(gpu.uuid)
    state.gpu_uuid = node.gpus[max(0, min(len(node.gpus) - 1, at + step))].uuid
    state.process_key = None
    state.first_process = 0
