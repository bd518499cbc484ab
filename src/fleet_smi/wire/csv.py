"""CSV for spreadsheets and programs: RFC 4180 text in which no cell is a formula."""

from collections.abc import Iterable, Sequence

CsvValue = str | int | float | bool | None
# A spreadsheet takes a cell that starts so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def encode_csv(rows: Iterable[Sequence[CsvValue]]) -> str:
    """The rows as text; unknown is empty, true and false are words."""
    import csv
    import io

    text = io.StringIO(newline="")
    csv.writer(text).writerows([_safe(cell) for cell in row] for row in rows)
    return text.getvalue()


def unescape_formula(cell: str) -> str:
    """A cell as it was before it was made safe."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell


def _safe(cell: CsvValue) -> CsvValue:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
