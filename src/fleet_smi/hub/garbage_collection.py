"""Garbage collection of a hub: short pauses, however many nodes it has.

A search for reference cycles stops the event loop for as long as there are objects to look at: a
tenth of a second with 10,000 nodes. So new objects are searched often, as Python would do it only
after many more were made than freed, and what has survived two searches is exempted from all
further ones ("frozen"). The state of the fleet, which is nearly all of that, has no cycles and is
freed without a search. Cycles that are exempted by chance, such as those of a connection, are
found by a full search once they are many.

Reports that agents push leave no cycles behind, but nearly all of the objects that a search would
look at. So what was made while nothing else was handled is exempted without a search.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

# Before and while the event loop runs something long: new objects are searched after this many,
# those that survived with them every fifth time.
_THRESHOLDS = (50_000, 5, 1_000_000)
# Most of what a report leaves behind is freed with the next one of its node: a search after that
# finds less. But what some thousand reports leave behind takes many milliseconds to search.
_SEARCH_SECONDS, _SEARCH_REPORTS = 2.0, 2000
_CHECK_SECONDS = 0.1
_SURVIVORS_EVERY, _FULL_SEARCH_EVERY = 10, 300
# About as many as 20,000 nodes have.
_MIN_FULL_SEARCH_OBJECTS = 2_000_000


class FullSearch:
    """Searches everything when there are twice as many frozen objects as after the last time."""

    def __init__(self, min_objects: int = _MIN_FULL_SEARCH_OBJECTS) -> None:
        self._min_objects = self._due_at_objects = min_objects

    def run_if_due(self) -> bool:
        """Search if it is due; return whether it was."""
        if gc.get_freeze_count() <= self._due_at_objects:
            return False
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._due_at_objects = max(self._min_objects, 2 * gc.get_freeze_count())
        return True


async def collect_often(
    count_reports: Callable[[], int] = lambda: 0,
    has_only_reports: Callable[[], bool] = lambda: False,
) -> None:
    """Search new objects, and sometimes the survivors, until cancelled.

    `count_reports` returns the number of reports so far, which have left objects behind, and
    `has_only_reports` whether nothing else was handled since its last call.
    """
    full_search = FullSearch()
    for number in count(1):
        await _wait_for_objects(count_reports)
        if has_only_reports():
            gc.freeze()  # takes the same time for any number of objects
        else:
            gc.collect(0 if number % _SURVIVORS_EVERY else 1)
        if number % _FULL_SEARCH_EVERY == 0:
            full_search.run_if_due()


async def _wait_for_objects(count_reports: Callable[[], int]) -> None:
    """Wait for the time of the next search, or less long where there are many reports."""
    clock = asyncio.get_running_loop().time
    until, most = clock() + _SEARCH_SECONDS, count_reports() + _SEARCH_REPORTS
    while clock() < until and count_reports() < most:
        await asyncio.sleep(_CHECK_SECONDS)


@contextmanager
def short_collections() -> Iterator[None]:
    """Keep the collections within the block short; `collect_often` is to run there."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _freeze_survivors(phase: str, info: dict[str, Any]) -> None:
    """Freeze all objects after a search of more than the newest; called by the collector."""
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()
