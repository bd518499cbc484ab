"""Garbage collection of a hub: short searches, and no cycle is lost for ever."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

from fleet_smi.hub.garbage_collection import FullSearch, collect_often, short_collections


class Knot:
    """Refers to itself, so that only a search frees it."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture
def searched() -> Iterator[list[int]]:
    """How many objects each search has looked at, at most."""
    counts: list[int] = []

    def record(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generations = range(info["generation"] + 1)
            counts.append(sum(len(gc.get_objects(generation)) for generation in generations))

    with short_collections():
        gc.callbacks.append(record)
        try:
            yield counts
        finally:
            gc.callbacks.remove(record)


def test_a_search_takes_no_longer_with_a_large_fleet(searched: list[int]) -> None:
    fleet = [[number] for number in range(1_000_000)]
    assert len(searched) > 10
    assert max(searched) < 400_000
    assert gc.get_freeze_count() > 500_000
    assert len(fleet) == 1_000_000


def test_objects_that_replace_others_are_searched_while_they_are_few(searched: list[int]) -> None:
    """Python counts them against those that are freed, and would search them all together."""
    fleet: list[tuple[int, list[int]]] = [(number, []) for number in range(100_000)]

    async def report() -> None:
        sent = 0
        collecting = asyncio.ensure_future(collect_often(lambda: sent))
        searched.clear()
        reports = count()
        while len(searched) < 5:
            for number in islice(reports, 1_000):
                fleet[number % len(fleet)] = (number, [])
                sent += 1
            await asyncio.sleep(0.01)
        collecting.cancel()

    asyncio.run(report())
    assert max(searched) < 100_000


def test_objects_of_reports_alone_are_exempted_without_a_search(searched: list[int]) -> None:
    fleet: list[tuple[int, list[int]]] = [(number, []) for number in range(10_000)]

    async def report() -> None:
        sent, frozen, others = 0, gc.get_freeze_count(), True
        collecting = asyncio.ensure_future(collect_often(lambda: sent, lambda: not others))
        while not searched:
            sent += 1_000
            await asyncio.sleep(0.01)
        others = False
        searched.clear()
        while gc.get_freeze_count() < frozen + len(fleet):
            for number in range(len(fleet)):
                fleet[number] = (number, [])
            sent += len(fleet)
            await asyncio.sleep(0.01)
        collecting.cancel()

    asyncio.run(report())
    assert searched == []


@pytest.mark.usefixtures("searched")
def test_cycles_that_die_young_are_found() -> None:
    dead = weakref.ref(Knot())
    others = [[number] for number in range(200_000)]
    assert dead() is None
    assert len(others) == 200_000


@pytest.mark.usefixtures("searched")
def test_cycles_that_were_exempted_are_found_when_there_are_many() -> None:
    knots = [Knot() for _ in range(50_000)]
    gc.freeze()
    first, search = weakref.ref(knots[0]), FullSearch(min_objects=gc.get_freeze_count() - 1)
    knots.clear()
    assert first() is not None
    assert search.run_if_due()
    assert first() is None
    assert not search.run_if_due()
