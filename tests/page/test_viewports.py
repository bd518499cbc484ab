"""Any window size and any fleet size: from a watch to a wall, from one GPU to thousands."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.builders import gpu, snapshot
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import hub_with_nodes
from tests.page.views import VIEWS, fits_viewport, open_view
from tests.server.threaded_hub import ThreadedHub

NARROW = {"width": 320, "height": 640}
WALL = {"width": 2560, "height": 1300}
MOVES = """() => [...document.querySelectorAll("*")].filter(each => {
    const { transitionDuration: takes, animationName: runs, scrollBehavior: scrolls } =
        getComputedStyle(each);
    return /[1-9]/.test(takes) || runs !== "none" || scrolls !== "auto";
}).length"""
"""Counts the elements that animate, transition or scroll smoothly."""
UNEXPLAINED = r"""() => {
    const found = [];
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const { textContent: text, parentElement: at } = words.currentNode;
        const short = /\b(cpu|ram|CPU|RAM|SM|PCIe?|ECC|MIG|UUID|PID|NUMA)\b|Temp\.|\dg\.\d+gb/;
        const explained = "[title], code, figcaption, .visually-hidden, .uuid, script";
        if (short.test(text) && !at.closest(explained))
            found.push(text.trim());
    }
    return found;
}"""
"""Returns the abbreviations without a tooltip."""


@pytest.mark.parametrize("size", [NARROW, WALL], ids=["narrow", "wall"])
def test_no_window_is_too_small_or_too_large(
    lab: ThreadedHub, new_page: NewPage, size: dict[str, int]
) -> None:
    page = new_page(viewport=size)
    for view in VIEWS:
        if view not in ("grid", "set-up"):
            open_view(page, lab, view)
            assert fits_viewport(page), view
    page.goto(lab.url)
    expect(page.get_by_text("nodes reporting")).to_be_visible()
    assert fits_viewport(page)


def test_reduced_motion_turns_animations_off(lab: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    for view in ("grid", "table", "people", "node"):
        open_view(page, lab, view)
        assert page.evaluate(MOVES) == 0, view


def test_every_abbreviation_has_a_tooltip(lab: ThreadedHub, page: Page) -> None:
    for view in ("grid", "table", "people", "node"):
        open_view(page, lab, view)
        assert page.evaluate(UNEXPLAINED) == [], view
    page.goto(f"{lab.url}/#/gpu/GPU-in-parts")
    expect(page.get_by_text("2g.20gb")).to_be_visible()
    assert page.evaluate(UNEXPLAINED) == []
    open_view(page, lab, "grid")
    page.get_by_role("gridcell", name="gpu01 GPU 3").click()
    expect(page.get_by_role("dialog").get_by_text("SM clock")).to_be_visible()
    assert page.evaluate(UNEXPLAINED) == []


def test_a_fleet_of_one_gpu_is_shown(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(gpu(0)))
    page.goto(hub.url)
    expect(page.get_by_role("gridcell", name="gpu01 GPU 0, free")).to_be_visible()


def test_of_hundreds_of_nodes_only_those_in_sight_are_drawn_and_the_last_is_a_key_away(
    tmp_path: Path, page: Page
) -> None:
    with hub_with_nodes(tmp_path / "hub", 300) as hub:
        page.goto(hub.url)
        expect(page.get_by_text("300 of 300")).to_be_visible()
        assert page.get_by_role("gridcell").count() < 150
        page.get_by_role("gridcell").first.focus()
        page.keyboard.press("Control+End")
        expect(page.get_by_role("gridcell", name="gpu299")).to_be_focused()


def test_a_large_fleet_hides_what_does_not_match_and_says_how_much(
    tmp_path: Path, page: Page
) -> None:
    with hub_with_nodes(tmp_path / "hub", 60) as hub:
        page.goto(hub.url)
        expect(page.get_by_text("60 of 60")).to_be_visible()
        page.get_by_role("gridcell").first.focus()
        page.keyboard.press("Control+End")
        expect(page.get_by_role("gridcell", name="gpu059")).to_be_focused()
        page.get_by_role("combobox", name="Search").fill("user:user7 node:gpu*")
        expect(page.get_by_role("gridcell")).to_have_count(1)
        expect(page.get_by_role("gridcell", name="gpu007")).to_be_in_viewport()
        expect(page.get_by_text("59 nodes hidden")).to_be_visible()
        page.get_by_role("button", name="Show all").click()
        expect(page.get_by_text("nodes hidden")).to_have_count(0)
        expect(page.get_by_role("gridcell", name="gpu059")).to_have_count(1)


def test_the_first_row_is_high_up_and_a_wide_window_has_several_columns_of_nodes(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page()
    page.goto(lab.url)
    first = page.get_by_role("gridcell").first.bounding_box()
    assert first is not None
    assert first["y"] < 220
    wide = new_page(viewport=WALL)
    wide.goto(lab.url)
    links = wide.get_by_role("grid").get_by_role("link")
    boxes = [links.filter(has_text=name).bounding_box() for name in ("gpu01", "gpu02")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] < boxes[1]["x"]
