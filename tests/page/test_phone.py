"""The page on a phone: free GPUs first, and no horizontal scrolling."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.builders import gpu, snapshot
from tests.page.page_pool import NewPage
from tests.page.views import VIEWS, fits_viewport, open_view
from tests.server.threaded_hub import ThreadedHub

SIZE = {"width": 390, "height": 844}


@pytest.fixture
def phone(new_page: NewPage) -> Page:
    """A page on a phone."""
    return new_page(viewport=SIZE, has_touch=True, is_mobile=True)


def test_free_gpus_are_above_the_nodes(lab: ThreadedHub, phone: Page) -> None:
    phone.goto(lab.url)
    free = phone.get_by_role("region", name=re.compile("^Free now"))
    expect(free.get_by_role("listitem")).to_have_count(3)
    expect(free.get_by_role("listitem").last).to_contain_text("gpu01 GPU 3, MIG 2g.20gb")
    expect(free.get_by_role("listitem").filter(has_text="gpu02")).to_contain_text("GPU 0, 1")
    nodes = phone.get_by_role("heading", name=re.compile("^Nodes"))
    above, below = free.bounding_box(), nodes.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] < min(below["y"], SIZE["height"])


def test_a_tap_copies_the_ssh_command_of_a_free_gpu(lab: ThreadedHub, phone: Page) -> None:
    phone.goto(lab.url)
    button = phone.get_by_role("button", name="ssh command for gpu02")
    button.tap()
    expect(button).to_contain_text("Copied")
    assert phone.evaluate("navigator.clipboard.readText()") == "ssh gpu02"


def test_holders_of_idle_gpus_are_listed(lab: ThreadedHub, phone: Page) -> None:
    phone.goto(lab.url)
    held = phone.get_by_role("region", name=re.compile("^Held, idle"))
    expect(held.get_by_role("listitem")).to_contain_text("bob")


def test_a_tap_on_a_gpu_opens_its_card_as_a_sheet(lab: ThreadedHub, phone: Page) -> None:
    phone.goto(lab.url)
    phone.get_by_role("button", name="gpu01 GPU 1, busy").tap()
    card = phone.get_by_role("dialog", name="gpu01 GPU 1")
    expect(card).to_contain_text("Used by alice")
    box = card.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= SIZE["width"]
    card.get_by_role("button", name="Close").tap()
    expect(card).to_be_hidden()


def test_a_sheet_stays_at_the_foot_when_the_hub_is_lost(tmp_path: Path, phone: Page) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        phone.goto(hub.url)
        phone.get_by_role("button", name="gpu01 GPU 0, free").tap()
        card = phone.get_by_role("dialog", name="gpu01 GPU 0")
        expect(card).to_contain_text("SM clock")
    expect(phone.get_by_text("Connection to the hub lost.")).to_be_visible()
    box = card.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] == pytest.approx(SIZE["height"], abs=1)


def test_the_table_has_no_free_list_above_it(lab: ThreadedHub, phone: Page) -> None:
    open_view(phone, lab, "table")
    expect(phone.get_by_role("heading", name="Free now")).to_have_count(0)


def test_every_section_is_reachable_on_a_phone(lab: ThreadedHub, phone: Page) -> None:
    phone.goto(lab.url)
    sections = phone.get_by_role("navigation", name="Sections")
    sections.get_by_role("link", name="People").tap()
    expect(phone.get_by_role("heading", name="People", level=1)).to_be_visible()
    expect(sections.get_by_role("link", name="Fleet")).to_be_in_viewport()


def test_no_view_has_to_be_scrolled_sideways(lab: ThreadedHub, phone: Page) -> None:
    for view in VIEWS:
        if view not in ("grid", "set-up"):
            open_view(phone, lab, view)
            assert fits_viewport(phone), view
    phone.goto(lab.url)
    expect(phone.get_by_role("heading", name="Free now")).to_be_visible()
    assert fits_viewport(phone)
