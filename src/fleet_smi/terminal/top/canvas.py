"""The canvas: one widget that shows lines of spans, and sends only the columns that changed."""

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from fleet_smi.terminal.ascii_text import to_ascii
from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.top.spans import TopLine
from fleet_smi.terminal.top.theme import style_of, theme_styles


class Canvas(Widget):
    """Shows lines. A slow line to the terminal gets what differs from the lines before, no more."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; background: transparent; }"

    def __init__(self, theme_name: str, *, is_ascii: bool) -> None:
        super().__init__()
        self._lines: list[TopLine] = []
        self._strips: list[Strip] = []
        self._is_ascii = is_ascii
        self._styles_by_role: dict[str | None, Style] = {}
        self._theme_styles = theme_styles(theme_name)

    def set_theme(self, name: str) -> None:
        """Use another theme, from the next lines on."""
        self._theme_styles = theme_styles(name)
        self._styles_by_role = {}
        self._lines, self._strips = [], []

    def show(self, lines: list[TopLine]) -> None:
        """Show these lines instead."""
        old_lines, old_strips = self._lines, self._strips
        if len(lines) != len(old_lines):
            self._lines, self._strips = lines, [self._strip(line) for line in lines]
            self.refresh()
            return
        strips, changed = [*old_strips], []
        for row, (line, old) in enumerate(zip(lines, old_lines, strict=True)):
            if line != old:
                strips[row] = self._strip(line)
                first, end = changed_columns(old, line)
                changed.append(Region(first, row, end - first, 1))
        self._lines, self._strips = lines, strips
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Return one line, as Textual requests it."""
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self._style(None))

    def _strip(self, line: TopLine) -> Strip:
        shown = [(to_ascii(text), role) for text, role in line] if self._is_ascii else line
        segments = [Segment(text, self._style(role)) for text, role in shown if text]
        return Strip(segments, sum([display_width(text) for text, _ in shown]))

    def _style(self, role: str | None) -> Style:
        style = self._styles_by_role.get(role)
        if style is None:
            style = Style.parse(style_of(role, self._theme_styles))
            self._styles_by_role[role] = style
        return style


def changed_columns(old: TopLine, new: TopLine) -> tuple[int, int]:
    """Return the first column that differs, and the one after the last.

    Not each part by itself: Textual sends styles and moves for each, twice as much in all.
    """
    end = sum([display_width(text) for text, _ in new])
    start = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        start += display_width(one[0])
    for one, other in zip(reversed(old), reversed(new), strict=False):
        if one != other or end <= start:
            break
        end -= display_width(one[0])
    return start, max(start + 1, end)
