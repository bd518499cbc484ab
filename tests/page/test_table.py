"""The table: its columns, sorting, and export as CSV."""

import csv
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS
from tests.server.threaded_hub import ThreadedHub

COLUMNS = ("State", "Node", "GPU", "Model", "User", "Load", "Memory", "Temp.", "Power", "Since")
MORE_COLUMNS = ("Reason", "Driver", "Labels", "UUID")


@pytest.fixture
def table(lab: ThreadedHub, page: Page) -> Locator:
    """The table of the sample fleet, once all rows are rendered."""
    page.goto(f"{lab.url}/#/table")
    expect(_rows(page)).to_have_count(sum(COUNTS.values()))
    return page.get_by_role("table")


def _rows(page: Page) -> Locator:
    return page.locator("tbody tr[aria-rowindex]")


def _uuids(page: Page) -> list[str]:
    return [text.strip() for text in page.locator("td.uuid").all_inner_texts()]


def test_every_column_is_there_and_says_what_it_means(table: Locator) -> None:
    for name in (*COLUMNS, *MORE_COLUMNS):
        head = table.get_by_role("columnheader", name=name, exact=True)
        expect(head.get_by_role("button")).to_have_attribute("title", re.compile(".{5,}"))


def test_what_needs_attention_comes_first(table: Locator, page: Page) -> None:
    states = [text.strip() for text in page.locator("td.state").all_inner_texts()]
    assert states[:3] == ["broken", "ghost", "held"]
    assert states[-1] == "unknown"


def test_figures_are_sorted_from_the_largest_and_then_the_other_way_round(
    table: Locator, page: Page
) -> None:
    head = table.get_by_role("columnheader", name="Power")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(_rows(page).first).to_contain_text("512 W")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(_rows(page).first).to_contain_text("71 W")


def test_the_csv_has_all_rows_as_they_are_sorted_and_what_the_hub_knows(
    table: Locator, page: Page
) -> None:
    table.get_by_role("columnheader", name="Node").get_by_role("button").click()
    expect(_rows(page).first).to_contain_text("gpu01")
    page.get_by_role("button", name="Copy as CSV").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    copied = list(csv.DictReader(text.splitlines()))
    assert [row["uuid"] for row in copied] == _uuids(page)
    alices = next(row for row in copied if row["users"] == "alice")
    assert alices["node"] == "gpu01"
    assert alices["load_percent"] == "87"
    assert alices["memory_used_mebibytes"] == str(16 * 1024)


def test_a_row_leads_to_its_node_and_its_gpu(table: Locator, page: Page) -> None:
    row = _rows(page).filter(has_text="alice")
    expect(row.get_by_role("link", name="gpu01", exact=True)).to_have_attribute(
        "href", "#/node/id-of-gpu01"
    )
    row.get_by_role("link", name="GPU 1 of gpu01").click()
    expect(page.get_by_role("heading", name="gpu01 GPU 1")).to_be_visible()


def test_an_address_sent_to_a_colleague_shows_them_the_same(
    table: Locator, page: Page, new_page: NewPage
) -> None:
    page.get_by_role("combobox", name="Search").fill("node:gpu0* -free label:rack=b")
    expect(_rows(page)).to_have_count(3)
    colleagues = new_page()
    colleagues.goto(page.url)
    expect(_rows(colleagues)).to_have_count(3)
    assert _uuids(colleagues) == _uuids(page)
    expect(colleagues.get_by_role("combobox", name="Search")).to_have_value(
        "node:gpu0* -free label:rack=b"
    )


def test_chosen_columns_are_kept_in_the_browser(table: Locator, page: Page) -> None:
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="UUID").uncheck()
    expect(table.get_by_role("columnheader", name="UUID")).to_have_count(0)
    page.reload()
    expect(table.get_by_role("columnheader", name="Labels")).to_be_visible()
    expect(table.get_by_role("columnheader", name="UUID")).to_have_count(0)
    page.get_by_text("Columns (1 hidden)").click()
    page.get_by_role("button", name="Show all").click()
    expect(table.get_by_role("columnheader", name="UUID")).to_have_count(1)


def test_a_row_has_its_process_and_stays_named_while_it_is_scrolled(
    lab: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(viewport={"width": 1024, "height": 768})
    page.goto(f"{lab.url}/#/table")
    row = _rows(page).filter(has_text="alice")
    expect(row.locator(".process")).to_have_text("python")
    region = page.get_by_role("region", name="Table of GPUs")
    expect(page.locator(".frame.right")).to_be_visible()
    region.evaluate("box => box.scrollTo(1e6, 0)")
    expect(page.locator(".frame.left:not(.right)")).to_be_visible()
    expect(row.get_by_role("link", name="gpu01", exact=True)).to_be_in_viewport()
