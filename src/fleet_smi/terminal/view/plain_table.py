"""A plain table of texts: aligned columns, none of them styled, the last one cut to the width."""

from collections.abc import Sequence

from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.terminal.paint import align_left, display_width

_GAP = "  "
_MAX_WIDTH = 32


def render_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int, empty: str
) -> str:
    """Return the table, or the text for an empty one; columns without any text are left out."""
    if not rows:
        return f"{empty}\n"
    cleaned = [[sanitize_text(cell, 512) for cell in row] for row in rows]
    shown = [at for at in range(len(heads)) if any(row[at] for row in cleaned)]
    table = [[row[at] for at in shown] for row in (heads, *cleaned)]
    widths = [
        min(_MAX_WIDTH, max(display_width(row[at]) for row in table)) for at in range(len(shown))
    ]
    before = sum(widths[:-1]) + len(_GAP) * (len(shown) - 1)
    widths[-1] = max(8, columns - before)
    lines = [
        _GAP.join([align_left(cell, width) for cell, width in zip(row, widths, strict=True)])
        for row in table
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)
