"""The benchmark of the page in Chromium: summary, budgets, and without Chromium."""

import os
from dataclasses import replace

import pytest

from bench import browser, page
from bench.peers import NotAvailable
from bench.report import MeasurementSeries, Pair, check_budget

WINDOW = page.PageWindow(
    seconds=20.0,
    updates=200,
    script_seconds=0.8,
    script_cpu_seconds=0.6,
    task_seconds=2.0,
    received_bytes=400_000,
)
USUAL = page.PageRun(
    first_paint_seconds=(0.5, 0.4),
    first_view_bytes=78_000,
    windows=(WINDOW, replace(WINDOW, script_seconds=1.0)),
    heap_bytes=(10 << 20, 10 << 20),
    frame_seconds=(0.016,) * 60,
)
MANY = replace(USUAL, windows=(WINDOW,), frame_seconds=(0.016,) * 95 + (0.1,) * 5)
KEYS = (0.005, 0.012)
ALL = (
    (page.TIME_PAIRS, "times"),
    (page.HEAP_PAIRS, "heaps"),
    (page.SIZE_PAIRS, "sizes"),
)


def outcomes(measured: page.PageMeasurement) -> dict[str, str]:
    def judged(pairs: tuple[Pair, ...], series: tuple[MeasurementSeries, ...]) -> dict[str, str]:
        by_label = {one.label: one for one in series}
        return {pair.ours: check_budget(pair, by_label).outcome for pair in pairs}

    return {
        label: outcome
        for pairs, which in ALL
        for label, outcome in judged(pairs, getattr(measured, which)).items()
    }


def test_a_page_within_its_limits_keeps_every_budget() -> None:
    assert set(outcomes(page.summarize(90_000, USUAL, KEYS, MANY)).values()) == {"kept"}


def test_a_large_fleet_that_does_not_start_hides_no_other_figure() -> None:
    found = outcomes(page.summarize(90_000, USUAL, KEYS, "does not run: too busy"))
    missed = [label for label, outcome in found.items() if outcome != "kept"]
    assert missed == [page.MANY_SCRIPT, page.MANY_FRAME]


@pytest.mark.parametrize(
    ("files", "usual", "many", "missed"),
    [
        (251_000, USUAL, MANY, page.FILES),
        (90_000, replace(USUAL, first_view_bytes=81_000), MANY, page.FIRST_VIEW),
        (90_000, replace(USUAL, frame_seconds=(0.025,) * 60), MANY, page.FRAME),
        (90_000, USUAL, MANY, page.KEY),
        (90_000, replace(USUAL, first_paint_seconds=(1.1, 1.2)), MANY, page.PAINT),
        (90_000, replace(USUAL, windows=(replace(WINDOW, updates=40),)), MANY, page.SCRIPT),
        (90_000, replace(USUAL, heap_bytes=(10 << 20, 12 << 20)), MANY, page.HEAP_LATE),
        (90_000, USUAL, replace(MANY, windows=(replace(WINDOW, updates=40),)), page.MANY_SCRIPT),
        (90_000, USUAL, replace(MANY, frame_seconds=(0.04,) * 60), page.MANY_FRAME),
        (
            90_000,
            replace(USUAL, windows=(replace(WINDOW, received_bytes=2_100_000),)),
            MANY,
            page.VIEWER,
        ),
    ],
)
def test_each_limit_is_missed_alone(
    files: int, usual: page.PageRun, many: page.PageRun, missed: str
) -> None:
    keys = (0.02,) if missed == page.KEY else KEYS
    found = outcomes(page.summarize(files, usual, keys, many))
    assert [label for label, outcome in found.items() if outcome == "missed"] == [missed]


def test_the_cost_of_an_update_is_its_mean_in_each_window() -> None:
    times = {one.label: one.values for one in page.summarize(90_000, USUAL, KEYS, MANY).times}
    assert times[page.SCRIPT] == pytest.approx((0.004, 0.005))
    assert times[page.SCRIPT_CPU] == pytest.approx((0.003, 0.003))
    assert times[page.WORK] == pytest.approx((0.01, 0.01))


def test_notes_have_update_rate_load_and_frame_times() -> None:
    notes = page.summarize(90_000, USUAL, KEYS, MANY).notes
    assert "1,000 nodes × 8 GPUs, watched for 40 s: 10.0 updates/s" in notes
    assert "the page's thread busy 10%" in notes
    assert "the longest 100 ms" in notes


def test_without_chromium_only_the_size_is_judged() -> None:
    found = outcomes(page.unavailable("no Chromium on this machine", 90_000))
    assert found.pop(page.FILES) == "kept"
    assert set(found.values()) == {"not judged"}


def test_a_page_that_does_not_run_misses_every_browser_budget() -> None:
    found = outcomes(page.failed_measurement("it did not draw", 90_000))
    assert found.pop(page.FILES) == "kept"
    assert set(found.values()) == {"missed"}


def test_a_window_without_an_update_cannot_be_measured() -> None:
    at = browser.PageCounters(
        at=1.0,
        layouts=7,
        script_seconds=0,
        script_cpu_seconds=0,
        task_seconds=0,
        received_bytes=0,
    )
    with pytest.raises(NotAvailable, match="no update in 20 s"):
        page.window_between(at, replace(at, at=21.0))


def test_a_machine_without_chromium_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(NotAvailable, match="no Chromium"):
        browser.find_chromium()
