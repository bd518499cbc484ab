"""Fixtures of the page tests: a real Chromium, driven by Playwright, against a real hub."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fleet_smi.server.page_files import INDEX_FILE, page_files
from tests.page import accounts, sample_fleet
from tests.page.page_pool import NewPage, PagePool
from tests.server.threaded_hub import ThreadedHub


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


@pytest.fixture(scope="module")
def page_pool(browser: Browser) -> PagePool:
    """The pages of the browser; some test files lend one for all their tests."""
    return PagePool(browser)


@pytest.fixture
def new_page(page_pool: PagePool) -> Iterator[NewPage]:
    """Opens pages for one test."""
    with page_pool.checked_pages() as opened:
        yield opened


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """A page in a desktop window."""
    return new_page()
