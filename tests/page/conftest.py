"""A real browser before a real hub: Debian's Chromium, through Playwright."""

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


def _unless(there: bool, reason: str) -> None:
    """Skip where a part cannot be had, but not in CI."""
    if not there:
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a file of tests; each has a page and cookies of its own.

    Playwright holds the thread's event loop as long as it is open: not beyond these tests.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    _unless(program is not None, "no Chromium on this machine: install it to test the page")
    _unless(INDEX_FILE in page_files(), "the page is not built: `make page` builds it")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    """A hub that knows nobody yet."""
    with ThreadedHub(tmp_path / "hub") as running:
        yield running


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with one of everything, for tests that only look."""
    with ThreadedHub(tmp_path_factory.mktemp("lab")) as running:
        sample_fleet.report_fleet(running)
        accounts.add_accounts(running)
        yield running


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages of the test's own."""
    with checked_pages(browser) as opened:
        yield opened


@contextmanager
def checked_pages(browser: Browser) -> Iterator[NewPage]:
    """Opens pages on which nothing may go wrong unseen: no error, no refusal by the policy."""
    contexts = []
    wrong: list[str] = []

    def opened(**options: Any) -> Page:
        context = browser.new_context(
            **({"viewport": DESKTOP_VIEWPORT, "permissions": CLIPBOARD} | options)
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: _refuse(wrong, dialog))
        page.on("console", lambda said: _note(wrong, said.type, said.text))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """A page as on a desk."""
    return new_page()


def _refuse(wrong: list[str], dialog: Dialog) -> None:
    wrong.append(f"a dialog: {dialog.message}")
    dialog.dismiss()


def _note(wrong: list[str], kind: str, words: str) -> None:
    # A hub that is away or refuses is what some tests are about; the browser logs each time.
    if kind in ("error", "warning") and "Failed to load resource" not in words:
        wrong.append(words)
