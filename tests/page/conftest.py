"""Fixtures of the page tests: a real Chromium, driven by Playwright, against a real hub."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from fleet_smi.server.page_files import INDEX_FILE, page_files
from tests.page import accounts, sample_fleet
from tests.server.threaded_hub import ThreadedHub

NewPage = Callable[..., Page]
DESKTOP_VIEWPORT = {"width": 1440, "height": 900}
CLIPBOARD = ["clipboard-read", "clipboard-write"]


def _require(available: bool, reason: str) -> None:
    """Skip the test if something is missing; in CI, fail instead."""
    if not available:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per test file; each test has its own page and cookies.

    Not for the whole session: Playwright occupies the thread's event loop while it is open, so
    that asyncio tests in the same process would fail.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    _require(program is not None, "no Chromium on this machine: install it to test the page")
    _require(INDEX_FILE in page_files(), "the page is not built: `make page` builds it")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    """A hub without nodes."""
    with ThreadedHub(tmp_path / "hub") as running:
        yield running


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with the sample fleet, for tests that change nothing."""
    with ThreadedHub(tmp_path_factory.mktemp("lab")) as running:
        sample_fleet.report_fleet(running)
        accounts.add_accounts(running)
        yield running


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages for one test."""
    with checked_pages(browser) as opened:
        yield opened


@contextmanager
def checked_pages(browser: Browser) -> Iterator[NewPage]:
    """Open pages; fail on any error, dialog, warning or violation of the CSP."""
    contexts = []
    problems: list[str] = []

    def opened(**options: Any) -> Page:
        context = browser.new_context(
            **({"viewport": DESKTOP_VIEWPORT, "permissions": CLIPBOARD} | options)
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: _refuse(problems, dialog))
        page.on("console", lambda message: _record(problems, message.type, message.text))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """A page in a desktop window."""
    return new_page()


def _refuse(problems: list[str], dialog: Dialog) -> None:
    problems.append(f"a dialog: {dialog.message}")
    dialog.dismiss()


def _record(problems: list[str], kind: str, text: str) -> None:
    # Some tests are about a hub that is gone or refuses: Chromium logs each such request.
    if kind in ("error", "warning") and "Failed to load resource" not in text:
        problems.append(text)
