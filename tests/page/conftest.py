"""Fixtures of the page tests: a real Chromium, driven by Playwright, against a real hub."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from bench.browser import find_chromium
from bench.peers import NotAvailable
from fleet_smi.server.page_files import INDEX_FILE, PageFile, page_files
from tests.page import accounts, sample_fleet
from tests.page.page_pool import NewPage, PagePool
from tests.server.threaded_hub import ThreadedHub

# A busy machine needs longer than the 5 s of the default.
expect.set_options(timeout=60_000)


def _unavailable(reason: str) -> NoReturn:
    """Skip the test for lack of something; in CI, fail instead."""
    assert not os.environ.get("CI"), reason
    pytest.skip(reason)


@pytest.fixture(scope="module")
def built_page() -> Mapping[str, PageFile]:
    """The files of the page."""
    if INDEX_FILE not in page_files():
        _unavailable("the page is not built: `make page` builds it")
    return page_files()


@pytest.fixture(scope="module")
def browser(built_page: Mapping[str, PageFile]) -> Iterator[Browser]:
    """One browser per test file; each test has its own page and cookies.

    Not for the whole session: Playwright occupies the thread's event loop while it is open, so
    that asyncio tests in the same process would fail.
    """
    try:
        program = find_chromium()
    except NotAvailable as missing:
        _unavailable(f"{missing}: install it to test the page")
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
