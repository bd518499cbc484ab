"""The navigation of the site, made from the tables of `docs/index.md`.

There, every page is listed once, below the heading of its group; so the index, which is also read
on its own, and the navigation cannot differ.
"""

import re
from pathlib import Path

_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+\.md)\) \|", re.MULTILINE)
Section = dict[str, list[dict[str, str]]]


def sections(index: str) -> list[Section]:
    """Return the groups of an index and their pages, by title."""
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)[1:]
    groups = zip(parts[::2], parts[1::2], strict=True)
    found = [(title, _ROW.findall(text)) for title, text in groups]
    return [{title: [{name: page} for name, page in rows]} for title, rows in found if rows]


def pages(index: str) -> list[str]:
    """Return the paths of all listed pages."""
    return [
        page
        for group in sections(index)
        for rows in group.values()
        for row in rows
        for page in row.values()
    ]


def missing_pages(docs: Path) -> set[str]:
    """Return the pages that the index does not list."""
    listed = pages((docs / "index.md").read_text(encoding="utf-8"))
    there = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    return there - {*listed, "index.md"}
