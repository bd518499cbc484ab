"""The page in Chromium, with a hub of 1,000 nodes, typing at 5,000, and 10,000 in the heat map."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, quantiles
from typing import TypeVar

from playwright.sync_api import Browser, Error

from bench.browser import PageCounters, PageView, find_chromium, launch_chromium, open_page
from bench.line_program import LineProgram
from bench.load_windows import parse_load_line
from bench.loaded_hub import LoadedHub, loaded_hub
from bench.peers import NotAvailable
from bench.report import MeasurementSeries, Pair
from fleet_smi.server.page_files import INDEX_FILE, page_files

_Run = TypeVar("_Run")
NODES, TYPED_NODES, MANY_NODES, GPUS = 1000, 5000, 10_000, 8
# Long report intervals: the page is measured, not the hub.
_MANY_INTERVAL_SECONDS = 30.0
_PAINTS = 5
_SETTLE_SECONDS, _WINDOW_SECONDS, _SCROLL_SECONDS = 5.0, 20.0, 5.0
_REST_SECONDS = 2.0
_TYPED = "user0 free mem"

PAINT, SCRIPT = "first useful paint", "script of an update"
SCRIPT_CPU, WORK = "the same, CPU alone", "all work of an update"
FRAME, KEY = "a frame in scrolling", f"{TYPED_NODES:,} nodes: a key in the search box"
MANY = f"{MANY_NODES:,} nodes: "
MANY_PAINT, MANY_SCRIPT, MANY_FRAME = MANY + PAINT, MANY + SCRIPT, MANY + FRAME
HEAP_EARLY, HEAP_LATE = "heap of the scripts at first", "heap of the scripts at last"
FILES, VIEWER = "all files of the page, gzip", "a viewer, each second"
FIRST_VIEW, FIRST_VIEW_BUDGET = "files of the first view, compressed", "80 kB"
SMOOTH_BUDGET = "60 frames/s"

PAINT_BUDGET, SCRIPT_BUDGET, SCROLL_BUDGET = "one second", "16 ms", "30 frames/s"
FILES_BUDGET, VIEWER_BUDGET = "250 kB", "100 kB"
TIME_PAIRS = (
    Pair(ours=PAINT, theirs=PAINT_BUDGET, budget=1.0),
    Pair(ours=SCRIPT, theirs=SCRIPT_BUDGET, budget=1.0),
    # A frame is never shorter than the screen's: a tenth is for the frames that come late.
    Pair(ours=FRAME, theirs=SMOOTH_BUDGET, budget=1.1),
    Pair(ours=KEY, theirs=SCRIPT_BUDGET, budget=1.0),
    Pair(ours=MANY_SCRIPT, theirs=SCRIPT_BUDGET, budget=1.0),
    Pair(ours=MANY_FRAME, theirs=SCROLL_BUDGET, budget=1.0),
)
HEAP_PAIRS = (Pair(ours=HEAP_LATE, theirs=HEAP_EARLY, budget=1.1),)
SIZE_PAIRS = (
    Pair(ours=FIRST_VIEW, theirs=FIRST_VIEW_BUDGET, budget=1.0),
    Pair(ours=FILES, theirs=FILES_BUDGET, budget=1.0),
    Pair(ours=VIEWER, theirs=VIEWER_BUDGET, budget=1.0),
)
_TIME_LIMITS = (
    MeasurementSeries(label=PAINT_BUDGET, values=(1.0,)),
    MeasurementSeries(label=SCRIPT_BUDGET, values=(0.016,)),
    MeasurementSeries(label=SMOOTH_BUDGET, values=(1 / 60,)),
    MeasurementSeries(label=SCROLL_BUDGET, values=(1 / 30,)),
)
_SIZE_LIMITS = (
    MeasurementSeries(label=FIRST_VIEW_BUDGET, values=(80e3,)),
    MeasurementSeries(label=FILES_BUDGET, values=(250e3,)),
    MeasurementSeries(label=VIEWER_BUDGET, values=(100e3,)),
)


@dataclass(frozen=True, kw_only=True)
class PageWindow:
    """Counters of an open page over one window."""

    seconds: float
    updates: int
    script_seconds: float
    script_cpu_seconds: float
    task_seconds: float
    received_bytes: int


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """A page that was opened several times and then observed; heap sizes at start and end."""

    first_paint_seconds: tuple[float, ...]
    first_view_bytes: int
    windows: tuple[PageWindow, ...]
    heap_bytes: tuple[int, int]
    frame_seconds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PageMeasurement:
    """Results: times, heap sizes, transfer sizes and notes."""

    times: tuple[MeasurementSeries, ...]
    heaps: tuple[MeasurementSeries, ...]
    sizes: tuple[MeasurementSeries, ...]
    notes: str = ""


def measure(environment: Mapping[str, str], minutes: float) -> PageMeasurement:
    """Measure the size of the page and, where there is Chromium, its performance."""
    files = sum(len(file.gzipped) for file in page_files().values())
    if INDEX_FILE not in page_files():
        return unavailable("the page is not built: `make page` builds it")
    try:
        program = find_chromium()
    except NotAvailable as reason:
        return unavailable(str(reason), files)
    try:
        with launch_chromium(program) as browser:
            usual = _usual(browser, environment, minutes)
            # What was measured is kept where a larger fleet fails to start.
            typed = _attempt(_typed, browser, environment)
            many = _attempt(_many, browser, environment)
            return summarize(files, usual, typed, many)
    except NotAvailable as reason:
        return failed_measurement(str(reason), files)


def _attempt(
    run: Callable[[Browser, Mapping[str, str]], _Run],
    browser: Browser,
    environment: Mapping[str, str],
) -> _Run | str:
    """Return the result of a run, or why there is none."""
    try:
        return run(browser, environment)
    except (NotAvailable, Error) as reason:
        return f"does not run: {str(reason).splitlines()[0]}"


def unavailable(reason: str, files: int | None = None) -> PageMeasurement:
    """Return results for a machine without Chromium: only the size is judged."""
    nothing = MeasurementSeries(label="the page in Chromium", note=f"not available: {reason}")
    size = () if files is None else (_one(FILES, files),)
    return PageMeasurement(
        times=(nothing, *_TIME_LIMITS), heaps=(nothing,), sizes=(*size, nothing, *_SIZE_LIMITS)
    )


def failed_measurement(reason: str, files: int) -> PageMeasurement:
    """Return results for a broken page or hub: every budget but the size is missed."""
    note = f"does not run: {reason}"
    times = tuple(MeasurementSeries(label=pair.ours, note=note) for pair in TIME_PAIRS)
    return PageMeasurement(
        times=(*times, *_TIME_LIMITS),
        heaps=(MeasurementSeries(label=HEAP_LATE, note=note),),
        sizes=(
            _one(FILES, files),
            MeasurementSeries(label=FIRST_VIEW, note=note),
            MeasurementSeries(label=VIEWER, note=note),
            *_SIZE_LIMITS,
        ),
    )


def summarize(
    files: int, usual: PageRun, key_seconds: tuple[float, ...] | str, many: PageRun | str
) -> PageMeasurement:
    """Return the observations as series with their limits; a text is why there are none."""
    early, late = usual.heap_bytes
    received = sum(window.received_bytes for window in usual.windows)
    return PageMeasurement(
        times=(
            MeasurementSeries(label=PAINT, values=usual.first_paint_seconds),
            _of_an_update(SCRIPT, usual, "script_seconds"),
            _of_an_update(SCRIPT_CPU, usual, "script_cpu_seconds"),
            _of_an_update(WORK, usual, "task_seconds"),
            _one(FRAME, fmean(usual.frame_seconds)),
            MeasurementSeries(label=KEY, note=key_seconds)
            if isinstance(key_seconds, str)
            else MeasurementSeries(label=KEY, values=key_seconds),
            *_many_series(many),
            *_TIME_LIMITS,
        ),
        heaps=(_one(HEAP_EARLY, early), _one(HEAP_LATE, late)),
        sizes=(
            _one(FILES, files),
            _one(FIRST_VIEW, usual.first_view_bytes),
            _one(VIEWER, received / _seconds(usual)),
            *_SIZE_LIMITS,
        ),
        notes=_words(NODES, usual) + ("" if isinstance(many, str) else _words(MANY_NODES, many)),
    )


def _many_series(many: PageRun | str) -> tuple[MeasurementSeries, ...]:
    if isinstance(many, str):
        labels = (MANY_PAINT, MANY_SCRIPT, MANY_FRAME)
        return tuple(MeasurementSeries(label=label, note=many) for label in labels)
    return (
        MeasurementSeries(label=MANY_PAINT, values=many.first_paint_seconds),
        _of_an_update(MANY_SCRIPT, many, "script_seconds"),
        _one(MANY_FRAME, fmean(many.frame_seconds)),
    )


def _of_an_update(label: str, watched: PageRun, field: str) -> MeasurementSeries:
    values = tuple(getattr(window, field) / window.updates for window in watched.windows)
    return MeasurementSeries(label=label, values=values)


def _one(label: str, value: float) -> MeasurementSeries:
    return MeasurementSeries(label=label, values=(value,))


def _seconds(watched: PageRun) -> float:
    return sum(window.seconds for window in watched.windows)


def _words(nodes: int, watched: PageRun) -> str:
    seconds, frames = _seconds(watched), watched.frame_seconds
    updates = sum(window.updates for window in watched.windows) / seconds
    busy = sum(window.task_seconds for window in watched.windows) / seconds
    return (
        f"{nodes:,} nodes × {GPUS} GPUs, watched for {seconds:.0f} s: {updates:.1f} updates/s, "
        f"the page's thread busy {busy:.0%}\n"
        f"  scrolling: {len(frames) / sum(frames):.0f} frames/s, 95 of 100 within "
        f"{1000 * quantiles(frames, n=20)[-1]:.0f} ms, the longest {1000 * max(frames):.0f} ms\n"
    )


def _usual(browser: Browser, environment: Mapping[str, str], minutes: float) -> PageRun:
    with loaded_hub(environment) as hub:
        _await_reports(hub.start_load(NODES, GPUS), NODES)
        windows = max(1, round(60 * minutes / _WINDOW_SECONDS))
        return _watched(browser, hub, "#/", windows)


def _typed(browser: Browser, environment: Mapping[str, str]) -> tuple[float, ...]:
    with loaded_hub(environment) as hub:
        _await_reports(hub.start_load(TYPED_NODES, GPUS, _MANY_INTERVAL_SECONDS), TYPED_NODES)
        with open_page(browser, f"{hub.url}/#/") as page:
            page.wait(_SETTLE_SECONDS)
            return page.measure_keys(_TYPED)


def _many(browser: Browser, environment: Mapping[str, str]) -> PageRun:
    with loaded_hub(environment) as hub:
        _await_reports(hub.start_load(MANY_NODES, GPUS, _MANY_INTERVAL_SECONDS), MANY_NODES)
        return _watched(browser, hub, "#/heat", 1)


def _await_reports(load: LineProgram, reports: int) -> None:
    """Wait until every node has reported."""
    while reports > 0:
        acknowledged, _, _ = parse_load_line(load.read_line())
        reports -= acknowledged


def _watched(browser: Browser, hub: LoadedHub, view: str, windows: int) -> PageRun:
    address = f"{hub.url}/{view}"
    paints = tuple(_paints(browser, address))
    with open_page(browser, address) as page:
        page.wait(_SETTLE_SECONDS)
        early = page.heap_bytes()
        first_view = page.first_view_bytes
        seen = tuple(_windows(page, windows))
        late = page.heap_bytes()
        frames = page.measure_scroll_frames(_SCROLL_SECONDS)
    return PageRun(
        first_paint_seconds=paints,
        first_view_bytes=first_view,
        windows=seen,
        heap_bytes=(early, late),
        frame_seconds=frames,
    )


def _paints(browser: Browser, address: str) -> Iterator[float]:
    for _ in range(_PAINTS):
        with open_page(browser, address) as page:
            yield page.first_paint_seconds
            page.wait(_REST_SECONDS)  # let its pending requests finish before the next page opens


def _windows(page: PageView, count: int) -> Iterator[PageWindow]:
    before = page.counters()
    for _ in range(count):
        page.wait(_WINDOW_SECONDS)
        now = page.counters()
        yield window_between(before, now)
        before = now


def window_between(before: PageCounters, now: PageCounters) -> PageWindow:
    """Return the difference of two counters; raise `NotAvailable` where nothing happened."""
    updates = now.layouts - before.layouts
    if not updates:
        raise NotAvailable(f"no update in {now.at - before.at:.0f} s")
    return PageWindow(
        seconds=now.at - before.at,
        updates=updates,
        script_seconds=now.script_seconds - before.script_seconds,
        script_cpu_seconds=now.script_cpu_seconds - before.script_cpu_seconds,
        task_seconds=now.task_seconds - before.task_seconds,
        received_bytes=now.received_bytes - before.received_bytes,
    )
