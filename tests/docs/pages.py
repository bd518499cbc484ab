"""Parse the documentation pages: headings, tables, code blocks, links."""

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
    """Return the text of a page, by its path in the project."""
    return (PROJECT / name).read_text(encoding="utf-8")


def code_blocks(text: str, *languages: str) -> list[str]:
    """Return the code blocks in these languages."""
    return [body for language, body in _FENCE.findall(text) if language in languages]


def strip_code_blocks(text: str) -> str:
    """Return the text without its code blocks."""
    return _FENCE.sub("", text)


def headings(text: str, level: int) -> list[str]:
    """Return the headings of one level, without backticks."""
    titles = re.findall(rf"^{'#' * level} (.+)$", strip_code_blocks(text), re.MULTILINE)
    return [heading.replace("`", "") for heading in titles]


def section(text: str, heading: str) -> str:
    """Return the text between a heading and the next."""
    plain = re.sub(r"^(#+ )`(.+)`$", r"\1\2", text, flags=re.MULTILINE)
    match = re.search(
        rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", plain, re.MULTILINE | re.DOTALL
    )
    assert match, f"no heading {heading!r}"
    return match[2]


def table_rows(text: str, first_column: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this title."""
    match = re.search(
        rf"^\| {re.escape(first_column)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    assert match, f"no table with the column {first_column!r}"
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in match[1].splitlines()
    ]


def code_spans(cell: str) -> list[str]:
    """Return the inline code in a cell."""
    return _CODE.findall(cell)


def internal_links(path: Path) -> Iterator[str]:
    """Yield the links of a page to other files of the project."""
    for target in _LINK.findall(strip_code_blocks(path.read_text(encoding="utf-8"))):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = (heading for level in range(1, 5) for heading in headings(text, level))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in titles}
