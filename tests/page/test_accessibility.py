"""Accessibility of each view in both themes, checked by axe."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.accessibility import accessibility_violations
from tests.page.accounts import ADMIN, VIEWER, sign_in
from tests.page.page_pool import NewPage
from tests.page.views import SPECIAL_VIEWS, VIEWS, fits_viewport, open_view
from tests.server.threaded_hub import ThreadedHub

PHONE = {"width": 390, "height": 844}


@pytest.mark.timeout(300)  # many views, and axe takes seconds for each on a busy machine
@pytest.mark.parametrize("window", [{}, {"viewport": PHONE}], ids=["desk", "phone"])
def test_every_view_is_accessible(
    lab: ThreadedHub, new_page: NewPage, window: dict[str, Any]
) -> None:
    page = new_page(reduced_motion="reduce", **window)
    sign_in(page, lab, ADMIN)
    found = []
    for name in VIEWS | SPECIAL_VIEWS:
        open_view(page, lab, name)
        found += [f"{name}: {barrier}" for barrier in accessibility_violations(page)]
        assert fits_viewport(page), name
    assert not found, "\n".join(found)


def test_card_key_list_and_search_are_accessible(lab: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    open_view(page, lab, "grid")
    page.get_by_role("gridcell", name="gpu01 GPU 1").click()
    expect(page.get_by_role("dialog")).to_contain_text("python")
    found = accessibility_violations(page, "[role=dialog]")
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Search").focus()
    expect(page.get_by_role("option").first).to_be_visible()
    found += accessibility_violations(page, "[role=search]")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    found += accessibility_violations(page, "dialog")
    assert not found, "\n".join(found)


def test_a_first_run_and_the_wall_are_accessible(
    hub: ThreadedHub, lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(reduced_motion="reduce")
    page.goto(hub.url)
    expect(page.get_by_role("heading", name="Add your first machine")).to_be_visible()
    found = accessibility_violations(page)
    page.goto(f"{lab.url}/?wall")
    expect(page.locator(".number")).to_be_visible()
    found += accessibility_violations(page)
    assert not found, "\n".join(found)


def test_the_form_of_a_reservation_is_accessible(lab: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    sign_in(page, lab, VIEWER)
    open_view(page, lab, "queue")
    page.get_by_role("button", name="Reserve").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found = accessibility_violations(page, "dialog")
    assert not found, "\n".join(found)


def test_the_theme_follows_the_system_until_one_is_chosen(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(color_scheme="dark")
    open_view(page, lab, "grid")
    dark = _ground(page)
    page.get_by_role("button", name="Theme:").click()
    expect(page.get_by_role("button", name="Theme: light", exact=True)).to_be_visible()
    light = _ground(page)
    assert sum(light) > sum(dark) + 300
    page.reload()
    expect(page.get_by_role("button", name="Theme: light", exact=True)).to_be_visible()
    assert _ground(page) == light
    page.get_by_role("button", name="Theme:").click()
    assert _ground(page) == dark


def _ground(page: Page) -> list[int]:
    """Return the background colour of the page as red, green and blue."""
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return [int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
