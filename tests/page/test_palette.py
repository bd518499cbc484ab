"""The command palette, pausing, and whom to ask: what is reached without the mouse."""

import re

from playwright.sync_api import Page, expect

from tests.page.accessibility import accessibility_violations
from tests.server.threaded_hub import ThreadedHub


def _open(page: Page) -> None:
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    expect(palette.get_by_role("combobox")).to_be_focused()


def test_the_palette_leads_to_nodes_people_and_saved_views(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/table?q=held")
    expect(page.locator("td.uuid").first).to_be_visible()
    _open(page)
    palette = page.get_by_role("dialog", name="Command palette")
    assert not accessibility_violations(page)
    page.keyboard.type("idle ones")
    page.keyboard.press("Enter")
    expect(palette).to_have_count(0)
    _open(page)
    page.keyboard.type("gpu01")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/node/id-of-gpu01$"))
    _open(page)
    page.keyboard.type("idle ones")
    expect(palette.get_by_role("option").first).to_contain_text("saved view")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#/table\?q=held$"))
    _open(page)
    page.keyboard.press("Escape")
    expect(palette).to_have_count(0)


def test_updates_are_paused_and_resumed(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("gridcell").first).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_text(re.compile(r"^Paused at \d\d:\d\d\."))).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Paused at")).to_have_count(0)


def test_the_card_of_a_held_gpu_asks_its_user(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    page.get_by_role("gridcell", name="gpu01 GPU 2, held").click()
    card = page.get_by_role("dialog", name="gpu01 GPU 2")
    ask = card.get_by_role("button", name="Ask bob")
    expect(ask).to_have_attribute("title", re.compile("^bob, do you still need GPU 2 on gpu01"))
    expect(card.get_by_role("link", name="History")).to_be_visible()
    card.get_by_role("link", name="bob").click()
    expect(page).to_have_url(re.compile("#/person/bob"))


def test_the_legend_switches_other_gpus_off(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu01")
    legend = page.get_by_role("group", name="Compare with")
    other = legend.get_by_role("button", name="GPU 0")
    other.click()
    expect(other).to_have_attribute("aria-pressed", "false")
    legend.get_by_role("button", name="Compare with all").click()
    expect(other).to_have_attribute("aria-pressed", "true")
    expect(page.locator("figure canvas").first).to_be_visible()
