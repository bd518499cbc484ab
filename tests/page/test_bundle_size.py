"""The size of the built page: what a browser loads for the first view. Needs no browser."""

import re
from collections.abc import Iterator, Mapping

import pytest

from fleet_smi.server.page_files import INDEX_FILE, PageFile

MAX_FIRST_VIEW_BYTES = 80_000
# Where there is a history, the first view loads this once it is drawn.
LATE_VIEW = "TimeSlider"


def imported_files(script: PageFile, name: str) -> Iterator[str]:
    """The chunk `name` that a script imports on demand, with all that this chunk needs."""
    text = script.body.decode()
    listed = re.search(r"m\.f=\[([^\]]*)\]", text)
    wanted = re.search(rf"import\(`\./{name}-[^)]*\)[^_]*__vite__mapDeps\(\[([\d,]*)\]\)", text)
    assert listed, "the build lists its chunks in another way"
    assert wanted, f"{name} is no chunk of its own any more: measure what is loaded instead"
    chunks = re.findall(r'"\./([^"]+)"', listed[1])
    yield from (f"assets/{chunks[int(index)]}" for index in wanted[1].split(","))


def first_view_files(files: Mapping[str, PageFile]) -> set[str]:
    entry, *_ = re.findall(r'src="\./([^"]+)"', files[INDEX_FILE].body.decode())
    start = set(imported_files(files[entry], "start"))
    (script,) = (name for name in start if re.search(r"/start-.*\.js$", name))
    return {INDEX_FILE, entry, *start, *imported_files(files[script], LATE_VIEW)}


@pytest.mark.parametrize("coding", ["gzipped", "brotli"])
def test_the_first_view_is_small(built_page: Mapping[str, PageFile], coding: str) -> None:
    loaded = first_view_files(built_page)
    assert any(name.endswith(".css") for name in loaded)
    sizes = {name: len(getattr(built_page[name], coding)) for name in loaded}
    assert sum(sizes.values()) <= MAX_FIRST_VIEW_BYTES, sizes
