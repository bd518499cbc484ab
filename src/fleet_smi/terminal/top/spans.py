"""Lines of the live screen: spans of text with a role, which a theme turns into a style.

Roles are those of `paint.py`, and these: `STATE.cell` and `STATE.fillN` for the unused and the used
part of a GPU's cell, `rule`, `key`, `select` for what is chosen, `input` for what is typed, `bar`
for the track of a bar. `~` before a role makes it faint, `!` shows it as chosen.
"""

from collections.abc import Iterable, Sequence

from fleet_smi.terminal.paint import display_width, strip_unprintable, truncate

TopSpan = tuple[str, str | None]
TopLine = list[TopSpan]


def width_of(line: Iterable[TopSpan]) -> int:
    """Return the display width of a line."""
    return sum([display_width(text) for text, _ in line])


def fit(line: Sequence[TopSpan], columns: int) -> TopLine:
    """Return the line without unprintable characters, exactly `columns` wide."""
    shown: TopLine = []
    left = columns
    for raw, role in line:
        text = strip_unprintable(raw)
        width = display_width(text)
        if width > left:
            cut = truncate(text, left)
            shown.append((cut, role))
            left -= display_width(cut)
            break
        if text:
            shown.append((text, role))
            left -= width
    if left > 0:
        shown.append((" " * left, None))
    return shown


def two_sided(left: Sequence[TopSpan], right: Sequence[TopSpan], columns: int) -> TopLine:
    """Return a line with one part at each side; the left one gives way."""
    right_width = width_of(right)
    if right_width + 8 > columns:
        return fit(left, columns)
    return [*fit(left, columns - right_width), *right]


def marked(line: Iterable[TopSpan], mark: str) -> TopLine:
    """Return the line with `!` or `~` before each role."""
    return [(text, f"{mark}{(role or 'text').lstrip('~!')}") for text, role in line]
