"""The page as a whole: live updates, the tab's title, and the keyboard."""

import re
from urllib.parse import unquote

from playwright.sync_api import Page, expect

from fleet_smi.server.page_files import page_files
from tests.builders import gpu, process, snapshot
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS
from tests.server.threaded_hub import ThreadedHub

FIRST_VIEW_BYTES = 80_000
LOADED = """performance.getEntriesByType("resource").map((each) => new URL(each.name).pathname)"""


def test_the_files_of_the_first_view_are_small(lab: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(single_use=True)
    page.add_init_script("window.requestIdleCallback = () => 0")  # nothing is loaded in advance
    page.goto(lab.url)
    expect(page.get_by_role("gridcell").first).to_be_visible()
    expect(page.get_by_role("button", name="Copy ssh command")).to_be_visible()
    files, loaded = page_files(), {"index.html"} | {path[1:] for path in page.evaluate(LOADED)}
    sizes = {name: len(files[name].gzipped) for name in loaded if name in files}
    assert len(sizes) > 2
    assert sum(sizes.values()) < FIRST_VIEW_BYTES, sizes
    brotli = sum(len(files[name].brotli or b"") for name in sizes)
    assert 0 < brotli < sum(sizes.values())


def test_a_new_report_is_shown_live(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(gpu(0), gpu(1, processes=(process(user="alice"),))))
    page.goto(hub.url)
    expect(page.get_by_text("gpu01").first).to_be_visible()
    expect(page.get_by_text("alice").first).to_be_visible()
    hub.join_and_report(snapshot(gpu(0, uuid="GPU-second"), node="gpu02"))
    expect(page.get_by_text("gpu02").first).to_be_visible()


def test_the_tab_title_has_the_number_of_free_gpus(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page).to_have_title(re.compile(f"^{COUNTS['free']} free · "))
    icon = page.locator("link[rel=icon]").get_attribute("href") or ""
    assert f">{COUNTS['free']}</text>" in unquote(icon)


def test_every_view_has_a_key(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("grid")).to_be_visible()
    for key, view in {"t": "table", "h": "heat", "p": "people", "g": ""}.items():
        page.keyboard.press(key)
        expect(page).to_have_url(f"{lab.url}/#/{view}")


def test_a_question_mark_lists_the_keys_and_escape_closes_them(
    lab: ThreadedHub, page: Page
) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("grid")).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(keys).to_contain_text("show only free GPUs")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()


def test_tab_reaches_every_control_outside_the_grid(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("button", name="Copy ssh command")).to_be_visible()
    expect(page.get_by_role("link", name="bob")).to_be_visible()
    reached = set()
    for _ in range(45):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    for text in ("Table", "Heat map", "bob", "More about usage", "Sign in"):
        assert any(text in each for each in reached), text


def test_the_grid_is_one_tab_stop(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("gridcell").first).to_be_visible()
    assert page.locator('[role=grid] [tabindex="0"]').count() == 1
