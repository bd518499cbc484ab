"""Screens of `fleet-smi top` for tests: a state, its data, and the text that is shown."""

from fleet_smi.model.fleet import FleetView
from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.top.controls import Controls
from fleet_smi.terminal.top.requests import Request
from fleet_smi.terminal.top.screen import Screen, render
from fleet_smi.terminal.top.state import ScreenState, TopData, View
from fleet_smi.terminal.top.update_data import apply_update
from fleet_smi.terminal.top.updates import Update, ViewArrived
from tests.terminal.samples import utc

_KEYS = {"/": "slash", "?": "question_mark", "+": "plus", "-": "minus", " ": "space"}


class Terminal:
    """A live screen without a terminal: takes keys and updates, and returns its text."""

    def __init__(
        self,
        view: FleetView | None = None,
        columns: int = 120,
        rows: int = 40,
        *,
        start: View = "fleet",
        has_history: bool = True,
    ) -> None:
        self.state = ScreenState(view=start)
        self.state.columns, self.state.rows = columns, rows
        self.data = TopData("lab.example", has_history=has_history)
        self.controls = Controls(self.state, self.data)
        if view is not None:
            self.update(ViewArrived(view))
        self.draw()

    def update(self, *updates: Update) -> None:
        for each in updates:
            apply_update(self.data, self.state, each, 0.0)
        self.draw()

    def draw(self, seconds_later: float = 2.0) -> Screen:
        screen = render(self.state, self.data, seconds_later, utc)
        self.controls.frame = screen.frame
        return screen

    def press(self, *keys: str) -> list[Request]:
        """Press keys by Textual's names, or by their characters."""
        requests: list[Request] = []
        for key in keys:
            character = key if len(key) == 1 else None
            requests += self.controls.press(_KEYS.get(key, key), character)
            self.draw()
        return requests

    def type(self, text: str) -> None:
        for character in text:
            self.press(character)

    @property
    def lines(self) -> list[str]:
        screen = self.draw()
        texts = ["".join([text for text, _ in line]) for line in screen.lines]
        assert len(texts) == self.state.rows
        assert {display_width(text) for text in texts} <= {self.state.columns}
        return texts

    @property
    def text(self) -> str:
        return "".join([line.rstrip() + "\n" for line in self.lines])
