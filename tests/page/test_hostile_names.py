"""Hostile names from machines are shown as text only, in every view (XSS, bidi)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.builders import gpu, process, snapshot
from tests.page.accounts import ADMIN, add_accounts, sign_in
from tests.page.page_pool import NewPage
from tests.page.views import fits_viewport
from tests.server.threaded_hub import ThreadedHub

MARKUP = "<img src=x onerror=alert(1)>"
SHOWN = {
    MARKUP: MARKUP,
    "\x1b[31mred\x1b[0m": "red",
    "gpu\u202e10\u2066": "gpu",
    "x" * 10_000: "xxxxxxxxxx",
    "'\"`${alert(1)}": "'\"`${alert(1)}",
}
"""Hostile name -> the text that is shown."""
UNSEEN = "[\x1b\u202a-\u202e\u2066-\u2069]"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub whose nodes report hostile text in every name that a machine can choose."""
    with ThreadedHub(tmp_path_factory.mktemp("hostile")) as hub:
        for at, name in enumerate(SHOWN):
            _report(hub, at, name)
        add_accounts(hub)
        yield hub


def _is_harmless(page: Page) -> bool:
    """Whether no markup was interpreted, and no bidi or control character is shown."""
    unseen = page.evaluate(f"new RegExp({UNSEEN!r}, 'u').test(document.body.textContent)")
    return page.locator("img").count() == 0 and not unseen


def _report(hub: ThreadedHub, at: int, name: str) -> None:
    running = process(user=name, name=name, command=name, container=name, slurm_job=name)
    card = gpu(0, uuid=f"GPU-{at}", name=name, busy_percent=80.0, processes=(running,))
    report = snapshot(
        card,
        node_id=f"hostile-{at}",
        name=name,
        labels={"rack": name},
        interval_seconds=60.0,
        taken_at=time.time(),
    )
    response = hub.report(report, token=hub.join(f"hostile-{at}", "hostile"))
    assert response.status == 200, response


@pytest.mark.parametrize("view", ["", "table", "people", "setup"])
def test_a_hostile_name_is_inert_in_fleet_views(
    hostile: ThreadedHub, page: Page, view: str
) -> None:
    sign_in(page, hostile, ADMIN)
    page.goto(f"{hostile.url}/#/{view}")
    for text in SHOWN.values():
        expect(page.get_by_role("main")).to_contain_text(text)
    assert _is_harmless(page)
    assert fits_viewport(page)


@pytest.mark.parametrize("view", ["node/hostile-", "gpu/GPU-"])
def test_a_hostile_name_is_inert_in_detail_views(
    hostile: ThreadedHub, page: Page, view: str
) -> None:
    for at, text in enumerate(SHOWN.values()):
        page.goto(f"{hostile.url}/#/{view}{at}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(text)
        expect(page.locator("figure canvas").first).to_be_visible()
        assert _is_harmless(page)
        assert fits_viewport(page), text


def test_a_hostile_name_is_inert_in_the_card(hostile: ThreadedHub, page: Page) -> None:
    sign_in(page, hostile, ADMIN)
    expect(page.get_by_role("gridcell")).to_have_count(len(SHOWN))
    for cell in page.get_by_role("gridcell").all():
        cell.click()
        card = page.get_by_role("dialog")
        expect(card.get_by_role("row")).to_have_count(2)
        box = card.bounding_box()
        assert box is not None
        assert box["width"] < 700
        assert box["height"] < 900
        page.keyboard.press("Escape")
    assert _is_harmless(page)


def test_a_hostile_name_is_inert_on_a_phone(hostile: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(hostile.url)
    for text in SHOWN.values():
        expect(page.get_by_role("main")).to_contain_text(text)
    assert _is_harmless(page)
    assert fits_viewport(page)


def test_a_hostile_name_is_inert_in_suggestions(hostile: ThreadedHub, page: Page) -> None:
    page.goto(hostile.url)
    page.get_by_role("combobox", name="Search").fill("user:")
    suggested = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(suggested.filter(has_text=MARKUP)).to_be_visible()
    assert _is_harmless(page)
    assert fits_viewport(page)


def test_a_filter_in_an_address_is_text_too(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(gpu(0)))
    page.goto(f"{hub.url}/#/?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    expect(page.get_by_role("gridcell")).to_have_count(1)
    assert _is_harmless(page)


def test_the_ssh_command_quotes_a_hostile_node_name(tmp_path: Path, page: Page) -> None:
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.report(
            snapshot(gpu(0), name="a; rm -rf ~", interval_seconds=60.0),
            token=hub.join("id-of-gpu01", "a"),
        )
        page.goto(hub.url)
        expect(page.get_by_text("ssh 'a; rm -rf ~'", exact=True)).to_be_visible()
