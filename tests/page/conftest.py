"""A real browser before a real hub: Debian's Chromium, through Playwright."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fleet_smi.server.page_files import INDEX, page_files
from tests.server.hubs import RunningHub


def _unless(there: bool, reason: str) -> None:
    """Skip where a part cannot be had, but not in CI."""
    if not there:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each has a page and cookies of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    _unless(program is not None, "no Chromium on this machine: install it to test the page")
    _unless(INDEX in page_files(), "the page is not built: `make page` builds it")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """A hub that knows nobody yet."""
    with RunningHub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which nothing may go wrong unseen: no error, no refusal by the content policy."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(15_000)
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    yield opened
    context.close()
    assert not [words for words in wrong if "Failed to load resource" not in words], wrong
