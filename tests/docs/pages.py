"""The pages of the documentation, taken apart: headings, tables, blocks of code, links."""

import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder, pattern in ((PROJECT, "*.md"), (PROJECT / "docs", "**/*.md"))
    for path in folder.glob(pattern)
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


def page(name: str) -> str:
    """The text of a page, by its path in the project."""
    return (PROJECT / name).read_text(encoding="utf-8")


def code_blocks(text: str, *languages: str) -> list[str]:
    """The blocks of code in these languages."""
    return [body for language, body in _FENCE.findall(text) if language in languages]


def strip_code_blocks(text: str) -> str:
    """The text between the blocks of code."""
    return _FENCE.sub("", text)


def headings(text: str, level: int) -> list[str]:
    """The headings of one level, without the marks of code."""
    found = re.findall(rf"^{'#' * level} (.+)$", strip_code_blocks(text), re.MULTILINE)
    return [heading.replace("`", "") for heading in found]


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next heading."""
    plain = re.sub(r"^(#+ )`(.+)`$", r"\1\2", text, flags=re.MULTILINE)
    match = re.search(
        rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", plain, re.MULTILINE | re.DOTALL
    )
    assert match, f"no heading {heading!r}"
    return match[2]


def table_rows(text: str, first_column: str) -> list[list[str]]:
    """The rows of the table whose first column has this title."""
    match = re.search(
        rf"^\| {re.escape(first_column)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    assert match, f"no table with the column {first_column!r}"
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in match[1].splitlines()
    ]


def code_spans(cell: str) -> list[str]:
    """What is marked as code in a cell."""
    return _CODE.findall(cell)


def internal_links(path: Path) -> Iterator[str]:
    """The links of a page that lead to other places of the project."""
    for target in _LINK.findall(strip_code_blocks(path.read_text(encoding="utf-8"))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(text: str) -> set[str]:
    """The names by which a page's headings can be linked to."""
    found = (heading for level in range(1, 5) for heading in headings(text, level))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
