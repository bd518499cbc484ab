"""The view for a screen on the wall: readable from afar, no controls, survives the hub."""

from pathlib import Path

from playwright.sync_api import expect

from tests.builders import gpu, snapshot
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS
from tests.page.views import fits_viewport
from tests.server.threaded_hub import ThreadedHub

SCREEN = {"width": 1920, "height": 1080}
CONTROLS = "a, button, input, select, [tabindex]"
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".wall *")]
    .filter(each => [...each.childNodes].some(one => one.nodeType === 3 && one.data.trim()))
    .map(each => parseFloat(getComputedStyle(each).fontSize)))"""
"""Returns the smallest font size of a text."""

CUT = """() => [...document.querySelectorAll(".wall section, .wall section *")]
    .filter(each => each.scrollWidth > each.clientWidth + 1)
    .filter(each => getComputedStyle(each).overflow === "hidden")
    .map(each => each.textContent)"""
"""Returns the texts of the left side that are wider than their room."""


def test_the_wall_shows_the_fleet_in_large_type_without_controls(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(viewport=SCREEN)
    page.goto(f"{lab.url}/?wall")
    free = page.locator(".number")
    expect(free).to_have_text(str(COUNTS["free"]))
    expect(page.get_by_text("gpu03 GPU 0 broken")).to_be_visible()
    expect(page.locator(CONTROLS)).to_have_count(0)
    assert page.evaluate(SMALLEST) >= 24
    assert page.evaluate(CUT) == []
    assert fits_viewport(page)


def test_the_wall_keeps_its_data_while_the_hub_is_gone(tmp_path: Path, new_page: NewPage) -> None:
    page = new_page(viewport=SCREEN)
    with ThreadedHub(tmp_path / "hub") as hub:
        token = hub.join("id-of-gpu01", "gpu01")
        hub.report(snapshot(gpu(0), gpu(1, uuid="GPU-1")), token=token)
        page.goto(f"{hub.url}/?wall")
        expect(page.locator(".number")).to_have_text("2")
    expect(page.get_by_text("Connection to the hub lost.")).to_be_visible()
    expect(page.locator(".number")).to_have_text("2")
