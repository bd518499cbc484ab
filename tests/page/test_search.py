"""The search box: one filter in box, chips, address and rows."""

import csv
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.builders import gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def shown(hub: ThreadedHub, page: Page) -> Iterator[Page]:
    """The table of four GPUs: gpu01 has two free ones, gpu02 one of alice and a free one."""
    hub.join_and_report(snapshot_now("gpu01", gpu(0), gpu(1), labels={"rack": "a"}))
    busy = gpu(0, uuid="GPU-busy", name="NVIDIA A100-SXM4-80GB", processes=(process(),))
    hub.join_and_report(
        snapshot_now("gpu02", busy, gpu(1, uuid="GPU-last", name="=A100"), labels={"rack": "b"})
    )
    page.goto(f"{hub.url}/#/table")
    expect(rows(page)).to_have_count(4)
    yield page


def box(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search GPUs, nodes, users")


def rows(page: Page) -> Locator:
    return page.locator("tbody tr:not(.spacer)")


def test_slash_focuses_the_search_box_and_typing_filters_and_changes_the_address(
    shown: Page,
) -> None:
    shown.keyboard.press("/")
    expect(box(shown)).to_be_focused()
    shown.keyboard.type("free node:gpu01 load<10")
    expect(rows(shown)).to_have_count(2)
    expect(shown).to_have_url(re.compile(r"#/table\?q=free\+node:gpu01\+load%3C10$"))
    shown.keyboard.press("Escape")
    expect(box(shown)).not_to_be_focused()


def test_an_address_with_a_filter_shows_what_it_showed(hub: ThreadedHub, shown: Page) -> None:
    shown.goto(f"{hub.url}/#/table?q=user:alice")
    shown.reload()
    expect(rows(shown)).to_have_count(1)
    expect(box(shown)).to_have_value("user:alice")
    expect(rows(shown)).to_contain_text("alice")


def test_a_suggestion_says_what_it_would_leave_and_the_keyboard_chooses_it(shown: Page) -> None:
    box(shown).click()
    shown.keyboard.type("us")
    offered = shown.get_by_role("option").filter(has_text="user:alice")
    expect(offered).to_contain_text("1 GPU")
    for _ in range(8):
        if offered.get_attribute("aria-selected") == "true":
            break
        shown.keyboard.press("ArrowDown")
    shown.keyboard.press("Enter")
    expect(box(shown)).to_have_value("user:alice ")
    expect(rows(shown)).to_have_count(1)


def test_going_back_restores_the_search_box_even_while_focused(shown: Page) -> None:
    shown.goto(f"{shown.url}?q=free")
    expect(rows(shown)).to_have_count(3)
    box(shown).focus()
    shown.go_back()
    expect(box(shown)).to_have_value("")
    shown.keyboard.press("Escape")
    expect(rows(shown)).to_have_count(4)


def test_there_is_no_empty_list_of_suggestions(shown: Page) -> None:
    box(shown).fill("nobody-of-that-name")
    expect(shown.get_by_role("heading", name="No matching GPUs")).to_be_visible()
    expect(shown.get_by_role("listbox")).to_have_count(0)


def test_an_invalid_filter_is_an_error_and_the_rows_stay(shown: Page) -> None:
    box(shown).fill("free")
    expect(rows(shown)).to_have_count(3)
    box(shown).fill("free modle:H100")
    expect(shown.get_by_text("did you mean 'model'?")).to_be_visible()
    expect(rows(shown)).to_have_count(3)


def test_chips_and_search_box_are_one_filter(shown: Page) -> None:
    chip = shown.get_by_role("button", name="1 busy")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(rows(shown)).to_have_count(1)
    shown.get_by_role("button", name="3 free").click()
    expect(box(shown)).to_have_value("state:busy,free")
    expect(rows(shown)).to_have_count(4)


def test_where_nothing_matches_the_page_says_which_word_to_drop(shown: Page) -> None:
    box(shown).fill("alice gpu01")
    shown.keyboard.press("Enter")
    shown.get_by_role("button", name="Remove alice").click()
    expect(rows(shown)).to_have_count(2)


def test_a_column_header_sorts_and_shows_the_order(shown: Page) -> None:
    head = shown.get_by_role("columnheader", name="Node")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(rows(shown).first).to_contain_text("gpu01")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(rows(shown).first).to_contain_text("gpu02")


def test_the_rows_are_copied_as_csv_without_a_formula(shown: Page) -> None:
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box(shown).fill("label:rack=b")
    expect(rows(shown)).to_have_count(2)
    shown.get_by_role("button", name="Copy as CSV").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    copied: list[dict[str, Any]] = list(csv.DictReader(read(shown).splitlines()))
    assert [row["node"] for row in copied] == ["gpu02", "gpu02"]
    assert {row["model"] for row in copied} == {"NVIDIA A100-SXM4-80GB", "'=A100"}


def read(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_of_thousands_of_gpus_only_the_rows_in_sight_are_drawn(
    hub: ThreadedHub, page: Page
) -> None:
    for at in range(20):
        cards = [gpu(index, uuid=f"GPU-{at}-{index}") for index in range(64)]
        hub.join_and_report(snapshot_now(f"big{at:02}", *cards))
    page.goto(f"{hub.url}/#/table")
    expect(page.get_by_text("1,280 GPUs")).to_be_visible()
    assert rows(page).count() < 80
    page.get_by_role("region", name="Table of GPUs").evaluate("box => box.scrollTo(0, 1e6)")
    expect(rows(page).last).to_contain_text("big19")
