"""A frame: all that one picture of the screen is made from, and what can be clicked in it."""

from fleet_smi.terminal.top.spans import TopLine, fit
from fleet_smi.terminal.top.state import ScreenState, TopData
from fleet_smi.terminal.top.view.node_rows import NodeRowLayout
from fleet_smi.terminal.view.formatting import ToLocalTime


class Frame:
    """The state at one moment; the parts of the screen note here where they have drawn what."""

    def __init__(
        self, state: ScreenState, data: TopData, monotonic: float, local: ToLocalTime
    ) -> None:
        self.state = state
        self.data = data
        self.now = data.shown_now(monotonic)
        self.live_now = data.live_now(monotonic)
        self.local = local
        self.node_at: dict[int, str] = {}
        """The node in each row of the screen."""
        self.gpu_at: dict[int, str] = {}
        self.process_at: dict[int, tuple[int, str]] = {}
        self.keys: list[tuple[int, int, str]] = []
        """The keys in the last row: first column, the column after, and the key."""
        self.layout: NodeRowLayout | None = None

    @property
    def columns(self) -> int:
        return self.state.columns


def exactly(lines: list[TopLine], columns: int, rows: int) -> list[TopLine]:
    """Return so many lines of exactly this width."""
    blank: TopLine = [(" " * columns, None)]
    shown = [fit(line, columns) for line in lines[:rows]]
    return shown + [blank] * (rows - len(shown))


def scrolled(first: int, at: int, room: int, total: int) -> int:
    """Return the first row such that the chosen one is in view, moved as little as possible."""
    first = max(min(first, at), at - room + 1)
    return max(0, min(first, total - room))
