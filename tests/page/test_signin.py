"""Signing in and out, on a hub that requires it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.builders import gpu, snapshot
from tests.page.accounts import PASSWORD, VIEWER, add_accounts, submit_sign_in
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[ThreadedHub]:
    """A hub behind a proxy, which shows its fleet to signed-in users only."""
    with ThreadedHub(tmp_path / "hub", hub__trusted_proxies=["127.0.0.1"]) as hub:
        hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        add_accounts(hub)
        yield hub


def test_a_closed_hub_shows_nothing_but_the_form(closed: ThreadedHub, page: Page) -> None:
    page.goto(closed.url)
    expect(page.get_by_text("Sign in to view this fleet.")).to_be_visible()
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_role("navigation", name="Sections")).to_have_count(0)
    expect(page.get_by_text("gpu01")).to_have_count(0)


def test_a_wrong_password_is_an_error_and_the_name_stays(closed: ThreadedHub, page: Page) -> None:
    page.goto(closed.url)
    submit_sign_in(page, VIEWER, "wrong horse battery")
    expect(page.get_by_role("alert")).to_contain_text("Wrong name or password")
    expect(page.get_by_label("Name")).to_have_value(VIEWER)
    expect(page.get_by_label("Password")).to_have_value("")
    submit_sign_in(page, VIEWER, PASSWORD)
    expect(page.get_by_role("gridcell")).to_have_count(1)


def test_signing_out_clears_the_screen(closed: ThreadedHub, page: Page) -> None:
    page.goto(closed.url)
    submit_sign_in(page, VIEWER, PASSWORD)
    expect(page.get_by_role("gridcell")).to_have_count(1)
    expect(page.get_by_role("banner")).to_contain_text(VIEWER)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    expect(page.get_by_text("gpu01")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Password")).to_be_visible()


def test_signing_in_works_with_the_keyboard(closed: ThreadedHub, page: Page) -> None:
    page.goto(closed.url)
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type(VIEWER)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("gridcell")).to_have_count(1)
