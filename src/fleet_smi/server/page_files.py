"""The files of the built web page, read and compressed once.

They hold no data of the fleet, so no login is needed to load them: the page itself shows one.
"""

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

PAGE_FOLDER = Path(__file__).with_name("page")
INDEX_FILE = "index.html"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


class PageFile(Struct, frozen=True):
    """One file, plain and compressed; `immutable` if its name has a hash of its content."""

    body: bytes
    gzipped: bytes
    brotli: bytes | None
    media_type: str
    immutable: bool


@cache
def page_files() -> Mapping[str, PageFile]:
    """Every file of the page by its path, empty where the page was not built."""
    return _read(PAGE_FOLDER)


def _read(folder: Path) -> dict[str, PageFile]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(folder).as_posix(): _file(path) for path in paths}


def _file(path: Path) -> PageFile:
    body = path.read_bytes()
    gzipped = zlib.compress(body, 9, zlib.MAX_WBITS | 16)
    compressed = path.with_name(f"{path.name}.br")
    brotli = compressed.read_bytes() if compressed.exists() else None
    # The build puts a hash of the content into the names of assets, and of nothing else.
    return PageFile(body, gzipped, brotli, _MEDIA_TYPES[path.suffix], path.parent.name == "assets")
