"""The page in Debian's Chromium, with Chromium's own performance counters."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playwright.sync_api import Browser, CDPSession, Error, Page, ViewportSize, sync_playwright

from bench.peers import NotAvailable

# The one without windows first: the same engine at half the processor time.
_CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
_DESK = ViewportSize(width=1440, height=900)
_PATIENCE_MILLISECONDS = 60_000
_A_GPU = "[data-gpu], canvas"
# After the frame that follows the first GPU: then it is visible.
_TELL_WHEN_DRAWN = f"""
window.drawnAfterMs = new Promise((resolve) => {{
  new MutationObserver((_, observer) => {{
    if (!document.querySelector("{_A_GPU}")) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  }}).observe(document, {{ childList: true, subtree: true }});
}});
"""
# Up and down the page, a little with each frame.
_SCROLL = """
(seconds) => new Promise((resolve) => {
  const times = [];
  let step = 40;
  const frame = (now) => {
    times.push(now);
    const before = scrollY;
    scrollBy(0, step);
    if (scrollY === before) step = -step;
    if (now - times[0] < 1000 * seconds) requestAnimationFrame(frame);
    else resolve(times);
  };
  requestAnimationFrame(frame);
})
"""

# The compressed size of the files that were loaded so far, without the data.
_FILE_BYTES = """
performance.getEntriesByType("resource").filter((each) => !each.name.includes("/api/"))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)
"""
# From the key until the frame that shows it is done.
_TIME_KEY = """
() => {
  window.keyMs = new Promise((resolve) => addEventListener("keydown", () => {
    const start = performance.now();
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => resolve(performance.now() - start);
      channel.port2.postMessage(0);
    });
  }, { once: true, capture: true }));
}
"""
_KEY_PAUSE_MILLISECONDS = 300


@dataclass(frozen=True, kw_only=True)
class PageCounters:
    """What Chromium has counted since the page was opened; `cpu` is the page's thread alone.

    The page does one layout per update, so that `layouts` counts its updates.
    """

    at: float
    layouts: int
    script_seconds: float
    script_cpu_seconds: float
    task_seconds: float
    received_bytes: int


def find_chromium() -> str:
    """Return the path of Chromium; raise `NotAvailable` where there is none."""
    for name in _CHROMIUM_NAMES:
        if program := shutil.which(name):
            return program
    raise NotAvailable("no Chromium on this machine")


@contextmanager
def launch_chromium(program: str) -> Iterator[Browser]:
    """Start Chromium headless; raise `NotAvailable` when it or a page of it fails."""
    with sync_playwright() as playwright:
        try:
            with playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]) as one:
                yield one
        except Error as error:
            raise NotAvailable(error.message.splitlines()[0]) from None


@contextmanager
def open_page(browser: Browser, url: str) -> Iterator["PageView"]:
    """Open the page in a browser with an empty cache."""
    with browser.new_context(viewport=_DESK) as context:
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        yield PageView(context.new_page(), url)


class PageView:
    """One open page whose first GPUs are visible."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._wall, self._cpu = (page.context.new_cdp_session(page) for _ in range(2))
        self._wall.send("Performance.enable", {"timeDomain": "timeTicks"})
        self._cpu.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._received_bytes = 0
        self._wall.on("Network.dataReceived", self._count)
        self._wall.send("Network.enable")
        page.add_init_script(_TELL_WHEN_DRAWN)
        page.goto(url)
        page.wait_for_selector(_A_GPU, state="attached")
        self.first_paint_seconds: float = page.evaluate("window.drawnAfterMs") / 1000
        self.first_view_bytes: int = page.evaluate(_FILE_BYTES)

    def _count(self, event: dict[str, Any]) -> None:
        self._received_bytes += event["encodedDataLength"]

    def wait(self, seconds: float) -> None:
        """Let the page run for a while and return its counters."""
        self._page.wait_for_timeout(1000 * seconds)

    def counters(self) -> PageCounters:
        """Return the counters so far."""
        wall, cpu = _metrics(self._wall), _metrics(self._cpu)
        return PageCounters(
            at=time.monotonic(),
            layouts=int(wall["LayoutCount"]),
            script_seconds=wall["ScriptDuration"],
            script_cpu_seconds=cpu["ScriptDuration"],
            task_seconds=wall["TaskDuration"],
            received_bytes=self._received_bytes,
        )

    def heap_bytes(self) -> int:
        """Return the JavaScript heap size after a garbage collection."""
        self._wall.send("HeapProfiler.collectGarbage")
        return int(_metrics(self._wall)["JSHeapUsedSize"])

    def measure_scroll_frames(self, seconds: float) -> tuple[float, ...]:
        """Scroll for the given time and return the duration of each frame."""
        times = self._page.evaluate(_SCROLL, seconds)
        return tuple((late - early) / 1000 for early, late in pairwise(times))

    def measure_keys(self, text: str) -> tuple[float, ...]:
        """Type into the search box and return how long each key takes until it is visible."""
        self._page.get_by_role("combobox", name="Search").click()
        self._page.wait_for_timeout(5 * _KEY_PAUSE_MILLISECONDS)
        seconds = []
        for key in text:
            self._page.evaluate(_TIME_KEY)
            self._page.keyboard.press(key)
            seconds.append(self._page.evaluate("window.keyMs") / 1000)
            self._page.wait_for_timeout(_KEY_PAUSE_MILLISECONDS)
        return tuple(seconds)


def _metrics(session: CDPSession) -> dict[str, float]:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in metrics}
