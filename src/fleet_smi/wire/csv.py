"""CSV encoder: RFC 4180 text in which no cell is a spreadsheet formula."""

from collections.abc import Iterable, Sequence

CsvValue = str | int | float | bool | None
# A spreadsheet runs a cell that starts with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def encode_csv(rows: Iterable[Sequence[CsvValue]]) -> str:
    """Encode rows; unknown is an empty cell, booleans are `true` and `false`."""
    # Imported here: most commands write no CSV.
    import csv
    import io

    text = io.StringIO(newline="")
    csv.writer(text).writerows([_escape(cell) for cell in row] for row in rows)
    return text.getvalue()


def _escape(cell: CsvValue) -> CsvValue:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    # A leading apostrophe is how spreadsheets mark a cell as text.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
