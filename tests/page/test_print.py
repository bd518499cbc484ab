"""The printed page: light, complete, with hub and time, whatever the screen shows."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.machines import wait_until
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS, hub_with_nodes
from tests.page.views import fits_viewport, open_view
from tests.server.threaded_hub import ThreadedHub

SHEET = {"width": 1046, "height": 717}
"""A4, landscape, without margins."""
NODES = 200


def _print(page: Page) -> None:
    """Switch to print media, as the browser does before it prints."""
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")


def _ground(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return colour


def test_print_is_light_and_the_screen_dark_again_afterwards(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(color_scheme="dark")
    open_view(page, lab, "grid")
    dark = _ground(page)
    _print(page)
    assert _ground(page) == "rgb(255, 255, 255)"
    expect(page.get_by_role("gridcell").first).to_have_css("color-scheme", "light")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert _ground(page) == dark


def test_the_heat_map_of_a_dark_screen_is_light_on_paper(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    drawn = "document.querySelector('[role=application] canvas').toDataURL()"
    light, dark = new_page(color_scheme="light"), new_page(color_scheme="dark")
    for page in (light, dark):
        open_view(page, lab, "heat map")
        expect(page.locator("[role=application] canvas")).to_have_attribute(
            "style", re.compile("width")
        )
    assert dark.evaluate(drawn) != light.evaluate(drawn)
    on_paper = dark.evaluate(f"dispatchEvent(new Event('beforeprint')), {drawn}")
    assert on_paper == light.evaluate(drawn)


def test_a_printed_page_names_hub_time_and_filter(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/?q=free")
    expect(page.get_by_role("gridcell")).to_have_count(sum(COUNTS.values()))
    host = re.escape(lab.url.removeprefix("http://"))
    header = page.get_by_text(
        re.compile(rf"^{host} · \d{{4}}-\d\d-\d\d \d\d:\d\d [\w+:-]+ · filter: free$")
    )
    expect(header).to_be_hidden()
    _print(page)
    expect(header).to_be_visible()


def test_controls_are_not_printed(lab: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(viewport=SHEET)
    for view in ("grid", "table", "people", "person", "history", "node"):
        page.emulate_media(media="screen")
        open_view(page, lab, view)
        _print(page)
        expect(page.get_by_role("search")).to_be_hidden()
        expect(page.get_by_role("navigation", name="Sections")).to_be_hidden()
        pressed = ".button:visible, .icon-button:visible, .segments:visible"
        expect(page.locator(pressed)).to_have_count(0)
        wait_until(lambda: fits_viewport(page))


def test_nodes_outside_the_viewport_are_printed_too(tmp_path: Path, page: Page) -> None:
    with hub_with_nodes(tmp_path / "hub", NODES) as hub:
        page.goto(hub.url)
        expect(page.get_by_text(f"{NODES} of {NODES}")).to_be_visible()
        assert page.get_by_role("gridcell").count() < NODES
        _print(page)
        expect(page.get_by_role("gridcell")).to_have_count(NODES)
        assert len(re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True))) > 1
