"""What people come for, done with the keyboard alone."""

import re

from playwright.sync_api import Page, expect

from tests.page.accounts import ADMIN, sign_in
from tests.server.threaded_hub import ThreadedHub

FOCUSED = """() => {
    const on = document.activeElement;
    if (on.matches("body, main, dialog")) return "";  // no control, whatever text it contains
    return `${on.getAttribute("aria-label") ?? ""} ${on.textContent}`.replace(/\\s+/g, " ").trim();
}"""


def _tab_to(page: Page, text: str, tabs: int = 60) -> None:
    """Press Tab until the focused control has this text."""
    passed = []
    for _ in range(tabs):
        page.keyboard.press("Tab")
        passed.append(page.evaluate(FOCUSED))
        if text in passed[-1]:
            return
    raise AssertionError(f"{text} is not among {passed}")


def _move_to(page: Page, key: str, text: str, steps: int = 8) -> None:
    """Press a key until the focused cell has this text."""
    passed = []
    while text not in (focused := page.evaluate(FOCUSED)):
        passed.append(focused)
        assert len(passed) <= steps, passed
        page.keyboard.press(key)


def _palette(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    expect(palette.get_by_role("combobox")).to_be_focused()
    page.keyboard.type(text)
    expect(palette.get_by_role("option").first).to_contain_text(text)
    page.keyboard.press("Enter")
    expect(palette).to_have_count(0)


def _search(page: Page, text: str) -> None:
    expect(page.get_by_role("gridcell").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"q={text}$"))


def test_gpus_of_a_size_are_requested_and_their_command_is_copied(
    lab: ThreadedHub, page: Page
) -> None:
    page.goto(lab.url)
    need = page.get_by_role("region", name="I need a GPU")
    expect(need.get_by_role("button", name="40 GB")).to_be_visible()
    _tab_to(page, "More GPUs")
    page.keyboard.press("Enter")
    _tab_to(page, "40 GB", 6)
    page.keyboard.press("Enter")
    expect(need).to_contain_text("gpu02: GPU 0 and 1")
    _tab_to(page, "ssh command", 6)
    page.keyboard.press("Enter")
    expect(need.get_by_role("button", name="ssh command")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "ssh gpu02"


def test_the_holder_of_an_idle_gpu_is_found_and_asked(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    _search(page, "held")
    page.get_by_role("combobox", name="Search").press("Escape")
    _tab_to(page, "gpu01 GPU", 20)
    _move_to(page, "ArrowRight", "held")
    card = page.get_by_role("dialog", name="gpu01 GPU 2")
    expect(card.get_by_role("button", name="Ask bob")).to_be_visible()
    _tab_to(page, "Ask bob", 10)
    page.keyboard.press("Enter")
    expect(card.get_by_text("Copied")).to_be_visible()
    asked = page.evaluate("navigator.clipboard.readText()")
    assert asked.startswith("bob, do you still need GPU 2 on gpu01")


def test_what_is_broken_is_found_with_what_to_do(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    _search(page, "broken")
    page.get_by_role("combobox", name="Search").press("Escape")
    _tab_to(page, "GPU", 20)
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowLeft")  # to the name of the node
    _move_to(page, "ArrowDown", "gpu03")
    _move_to(page, "ArrowRight", "broken")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Reboot the machine")).to_be_visible()


def test_a_machine_is_added(lab: ThreadedHub, page: Page) -> None:
    sign_in(page, lab, ADMIN)
    expect(page.get_by_role("link", name="Setup")).to_be_visible()
    _palette(page, "Add a machine")
    expect(page.get_by_role("button", name="Create join command")).to_be_visible()
    _tab_to(page, "Create join command", 1)  # the palette leads into the view, not past its end
    page.keyboard.press("Enter")
    expect(page.locator("code").filter(has_text="| fleet-smi agent")).to_be_visible()


def test_the_report_of_a_month_is_downloaded(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    expect(page.get_by_role("gridcell").first).to_be_visible()
    _palette(page, "Download a report")
    expect(page.get_by_text("Download report")).to_be_visible()
    _tab_to(page, "Download report", 30)
    page.keyboard.press("Enter")
    menu = page.locator("details", has_text="Download report")
    expect(menu.get_by_text("no data")).to_have_count(1)  # of the month before the history
    _tab_to(page, "HTML", 4)
    _tab_to(page, "HTML", 4)
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.endswith(".html")
