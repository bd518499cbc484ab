"""Controls: what keys and the mouse do to the state, and the requests that follow from them."""

from collections.abc import Callable

from fleet_smi.errors import Unmet
from fleet_smi.model.fleet import NodeView
from fleet_smi.terminal.top.arrangement import SORTS
from fleet_smi.terminal.top.filter_controls import (
    apply_typed,
    edit_filter,
    set_filter,
    start_filter,
    toggle_free,
)
from fleet_smi.terminal.top.frame import Frame
from fleet_smi.terminal.top.process_pane import row_key, shown_processes
from fleet_smi.terminal.top.requests import (
    ChangeTheme,
    GoTo,
    Quit,
    Request,
    ShowPeople,
    ShowQueue,
    SignalName,
)
from fleet_smi.terminal.top.signal_question import signal_question
from fleet_smi.terminal.top.state import (
    ScreenState,
    TopData,
    choose_node,
    chosen_gpu,
    chosen_item,
    move_gpu,
    move_node,
)
from fleet_smi.terminal.top.view.process_table import PROCESS_SORTS, ProcessRow

SPANS_SECONDS = (3600.0, 6 * 3600.0, 24 * 3600.0, 7 * 24 * 3600.0)
_WHEEL_ROWS = 3


class Controls:
    """Handles keys and the mouse; `frame` is the picture that the user sees."""

    def __init__(self, state: ScreenState, data: TopData) -> None:
        self._state = state
        self._data = data
        self.frame: Frame | None = None
        self._requests: list[Request] = []
        self._keys: dict[str, Callable[[], None]] = {
            "q": lambda: self._ask(Quit()),
            "ctrl+c": lambda: self._ask(Quit()),
            "question_mark": self._toggle_help,
            "slash": lambda: start_filter(state),
            "escape": self._back,
            "enter": self._open_node,
            "f": self._toggle_free,
            "s": self._next_sort,
            "S": self._next_process_sort,
            "T": lambda: self._toggle("tree"),
            "d": self._toggle_density,
            "c": lambda: self._ask(ChangeTheme()),
            "u": self._show_people,
            "y": self._show_history,
            "Q": self._show_queue,
            "l": self._live,
            "tab": self._next_pane,
            "up": lambda: self._move(-1),
            "down": lambda: self._move(1),
            "pageup": lambda: self._move(-self._page()),
            "pagedown": lambda: self._move(self._page()),
            "home": lambda: self._move(-(10**9)),
            "end": lambda: self._move(10**9),
            "left": lambda: self._sideways(-1),
            "right": lambda: self._sideways(1),
            "shift+left": lambda: self._sideways(-10),
            "shift+right": lambda: self._sideways(10),
            "plus": lambda: self._zoom(-1),
            "minus": lambda: self._zoom(1),
            "t": lambda: self._signal("TERM"),
            "k": lambda: self._signal("KILL"),
        }

    def press(self, key: str, character: str | None = None) -> list[Request]:
        """Handle a key, by Textual's name of it; return what it requests."""
        state = self._state
        if state.question is not None:
            self._answer(key)
        elif state.editor is not None and key != "ctrl+c":
            edit_filter(state, self._data, key, character)
        else:
            state.message = ""
            action = self._keys.get(character or "") or self._keys.get(key)
            if action is not None:
                action()
        return self._take()

    def paste(self, text: str) -> list[Request]:
        """Insert pasted text where a filter is typed."""
        if self._state.editor is not None:
            self._state.editor.insert(text)
            apply_typed(self._state, self._data, self._state.editor)
        return self._take()

    def click(self, column: int, row: int) -> list[Request]:
        """Handle a click: a key in the last row, a node and its GPU, or a process."""
        frame, state = self.frame, self._state
        if frame is None or state.question is not None:
            return []
        if row == state.rows - 1:
            keys = [key for start, end, key in frame.keys if start <= column < end]
            return self.press(_key_name(keys[0])) if keys else []
        if row in frame.process_at and not self._is_left(column):
            state.pane, state.process_key = "processes", frame.process_at[row]
        elif row in frame.gpu_at:
            state.pane, state.gpu_uuid = "rows", frame.gpu_at[row]
        elif row in frame.node_at and frame.layout is not None:
            state.pane = "rows"
            cell = frame.layout.cell_at(column)
            choose_node(state, self._data, frame.node_at[row], cell or 0)
        return self._take()

    def wheel(self, step: int, column: int, row: int) -> list[Request]:
        """Handle the wheel: it moves in the part of the screen below the pointer."""
        state, frame = self._state, self.frame
        if frame is not None and row in frame.process_at and not self._is_left(column):
            state.pane = "processes"
        elif frame is not None and (row in frame.node_at or row in frame.gpu_at):
            state.pane = "rows"
        self._move(step * _WHEEL_ROWS)
        return self._take()

    def _is_left(self, column: int) -> bool:
        """Whether a column is that of the rows, where the detail is beside them."""
        layout = None if self.frame is None else self.frame.layout
        return (
            layout is not None
            and layout.columns < self._state.columns
            and (column < layout.columns)
        )

    def _take(self) -> list[Request]:
        taken, self._requests = self._requests, []
        return taken

    def _ask(self, request: Request) -> None:
        self._requests.append(request)

    def _toggle(self, name: str) -> None:
        setattr(self._state, name, not getattr(self._state, name))

    def _toggle_help(self) -> None:
        self._toggle("is_help")

    def _toggle_density(self) -> None:
        self._state.dense = self._state.node_rows(self._data) != 1

    def _back(self) -> None:
        state = self._state
        if state.is_help:
            state.is_help = False
        elif state.pane == "processes":
            state.pane = "rows"
        elif state.view == "history":
            state.view = "fleet"
            self._live()
        elif state.view != "fleet" and len(self._data.fleet) > 1:
            state.view = "fleet"
        elif state.view in ("people", "queue"):
            state.view = "node"
        elif state.filter_text:
            set_filter(state, self._data, "")

    def _open_node(self) -> None:
        item = chosen_item(self._state, self._data)
        if item is not None and self._state.view == "fleet":
            self._state.view = "node"
            self._state.node_id = item.node_id

    def _next_sort(self) -> None:
        state = self._state
        state.sort = SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)]
        self._data.arrangement.set_sort(state.sort)
        self._data.arrangement.update(self._data.fleet)

    def _next_process_sort(self) -> None:
        at = PROCESS_SORTS.index(self._state.process_sort)
        self._state.process_sort = PROCESS_SORTS[(at + 1) % len(PROCESS_SORTS)]

    def _next_pane(self) -> None:
        state = self._state
        state.pane = "rows" if state.pane == "processes" else "processes"
        if state.pane == "processes" and not (self.frame and self.frame.process_at):
            state.pane = "rows"

    def _toggle_free(self) -> None:
        toggle_free(self._state, self._data)
        if self._state.view == "node" and len(self._data.fleet) > 1:
            self._state.view = "fleet"

    # Moving

    def _page(self) -> int:
        return max(1, len({*(self.frame.node_at.values() if self.frame else ())}) - 1)

    def _move(self, step: int) -> None:
        state = self._state
        if state.view in ("people", "queue") or state.is_help:
            state.first_line = max(0, state.first_line + step)
        elif state.pane == "processes":
            self._move_process(step)
        elif state.view == "node":
            move_gpu(state, self._data, step)
        else:
            move_node(state, self._data, step)

    def _sideways(self, step: int) -> None:
        state = self._state
        if state.view == "history":
            self._scrub(step)
        elif state.view == "fleet":
            if (item := chosen_item(state, self._data)) is not None:
                state.node_id = item.node_id
            move_gpu(state, self._data, step)

    def _node(self) -> NodeView | None:
        item = chosen_item(self._state, self._data)
        return None if item is None else self._data.node_view(item.node_id)

    def _processes(self) -> tuple[ProcessRow, ...]:
        node = self._node()
        if node is None or self.frame is None:
            return ()
        gpu = chosen_gpu(self._state, node)
        uuid = None if self._state.view == "node" or gpu is None else gpu.uuid
        return shown_processes(self.frame, node, uuid)

    def _move_process(self, step: int) -> None:
        keys = [row_key(row) for row in self._processes()]
        if keys:
            at = keys.index(self._state.process_key) if self._state.process_key in keys else 0
            self._state.process_key = keys[max(0, min(len(keys) - 1, at + step))]

    # Other views

    def _show_people(self) -> None:
        if self._state.view == "people":
            self._back()
            return
        self._state.view, self._state.first_line = "people", 0
        self._ask(ShowPeople(self._state.at))

    def _show_queue(self) -> None:
        if self._data.queue is None:
            self._state.message = "this fleet has no queue"
            return
        self._state.view, self._state.first_line = "queue", 0
        self._ask(ShowQueue())

    def _show_history(self) -> None:
        state = self._state
        if not self._data.has_history:
            state.message = "only a hub keeps history: give --hub URL"
        elif state.view == "history":
            self._back()
        else:
            state.view, state.pane = "history", "rows"

    def _live(self) -> None:
        if self._state.at is not None or self._state.cursor is not None:
            self._state.at = self._state.cursor = None
            self._ask(GoTo(None))

    def _zoom(self, step: int) -> None:
        at = SPANS_SECONDS.index(self._state.span_seconds)
        self._state.span_seconds = SPANS_SECONDS[max(0, min(len(SPANS_SECONDS) - 1, at + step))]

    def _scrub(self, step: int) -> None:
        strips, state = self._data.strips, self._state
        if strips is None:
            return
        column = (strips.end - strips.start) / strips.columns
        at = (state.cursor if state.cursor is not None else strips.end) + step * column
        if at >= strips.end - column / 2 and step > 0:
            self._live()
            return
        state.cursor = max(strips.start, min(at, strips.end - column))
        self._ask(GoTo(state.cursor))

    def _signal(self, name: SignalName) -> None:
        try:
            self._state.question = signal_question(
                self._state, self._node(), self._processes(), name
            )
        except Unmet as reason:
            self._state.message = str(reason)

    def _answer(self, key: str) -> None:
        question, self._state.question = self._state.question, None
        if question is not None and key in ("y", "Y", "upper_y"):
            self._ask(question.request)
        else:
            self._state.message = "nothing was sent"


def _key_name(shown: str) -> str:
    names = {"Enter": "enter", "Esc": "escape", "Tab": "tab", "/": "slash", "?": "question_mark"}
    return names.get(shown, shown)
