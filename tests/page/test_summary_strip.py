"""The summary strip: counts per state that act as filters, and the connection to the hub."""

import re
import time
from pathlib import Path

import msgspec
from playwright.sync_api import Locator, Page, expect

from tests.builders import gpu, snapshot
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS, state_counts
from tests.server.threaded_hub import ThreadedHub

LOST = "Connection to the hub lost."
GREY = ".grey"


def _chip(page: Page, state: str, count: int) -> Locator:
    strip = page.get_by_role("region", name="Fleet now")
    return strip.get_by_role("button", name=re.compile(rf"^{count}\s*{state}( \+\d+ MIG)?$"))


def _found(hub: ThreadedHub, query: str) -> int:
    response = hub.request("GET", f"/api/v1/fleet?filter={query}")
    return sum(len(node["gpus"]) for node in msgspec.json.decode(response.body)["nodes"])


def test_the_counts_are_those_of_the_hub(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    for state, count in state_counts(lab).items():
        expect(_chip(page, state, count)).to_be_visible()


def test_each_count_shows_what_the_hub_finds_by_it_and_all_again(
    lab: ThreadedHub, page: Page
) -> None:
    page.goto(f"{lab.url}/#/table")
    rows = page.locator("tbody tr[aria-rowindex]")
    for state, count in COUNTS.items():
        expect(rows).to_have_count(sum(COUNTS.values()))
        chip = _chip(page, state, count)
        chip.click()
        expect(chip).to_have_attribute("aria-pressed", "true")
        expect(rows).to_have_count(_found(lab, state))
        chip.click()


def test_strip_search_and_hub_agree_on_free_mig_instances(lab: ThreadedHub, page: Page) -> None:
    summary = lab.fleet().summary
    assert (summary.free, summary.free_instances) == (3, 1)
    page.goto(lab.url)
    chip = page.get_by_role("button", name="3 free +1 MIG")
    chip.click()
    expect(page.get_by_role("search")).to_contain_text("3 GPUs, 1 MIG instance")
    # The three, and the GPU that has the instance.
    assert _found(lab, "free") == 4


def test_it_shows_nodes_reporting_power_and_free_gpus(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    strip = page.get_by_role("region", name="Fleet now")
    expect(strip).to_contain_text(re.compile(r"4 of 5\s*nodes reporting"))
    expect(strip).to_contain_text(re.compile(r"160 GiB\s*free memory"))
    expect(strip).to_contain_text(re.compile(r"\d+ s ago\s*last update"))
    expect(strip).to_contain_text(re.compile(r"W\s*GPU power"))


def test_a_lost_hub_shows_a_warning_and_greys_out_the_data(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
    page.goto(hub.url)
    expect(page).to_have_title(re.compile("^1 free · .* · fleet-smi$"))
    hub.stop()
    expect(page.get_by_text(LOST)).to_be_visible(timeout=2_000)
    expect(page.locator(GREY)).to_have_css("backdrop-filter", "grayscale(1)")
    expect(page.get_by_text("gpu01").first).to_be_visible()
    expect(page).to_have_title(re.compile(r"^127\.0\.0\.1:\d+ · fleet-smi$"))


def test_the_page_reconnects_and_shows_new_data(tmp_path: Path, page: Page) -> None:
    with ThreadedHub(tmp_path / "hub") as before:
        before.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        page.goto(before.url)
        expect(page.get_by_role("gridcell")).to_have_count(1)
        address = before.url.removeprefix("http://")
    expect(page.get_by_text(LOST)).to_be_visible()
    with ThreadedHub(tmp_path / "hub", hub__listen=address) as after:
        expect(page.get_by_text(LOST)).to_be_hidden()
        after.join_and_report(snapshot(gpu(0, uuid="GPU-new"), node="gpu02", interval_seconds=60.0))
        expect(page.get_by_role("gridcell", name="gpu02 GPU 0")).to_be_visible()
        expect(page.get_by_role("gridcell")).to_have_count(2)
        expect(page.locator(GREY)).to_have_count(0)
        expect(page).to_have_title(re.compile("^2 free"))


def test_a_reconnect_can_be_started_by_hand(tmp_path: Path, new_page: NewPage) -> None:
    page = new_page(single_use=True)
    page.clock.install()
    with ThreadedHub(tmp_path / "hub") as before:
        before.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        page.goto(before.url)
        expect(page.get_by_role("gridcell")).to_have_count(1)
        address = before.url.removeprefix("http://")
        # With its clock stopped, the page does not reconnect by itself.
        page.clock.pause_at(time.time() + 1)
    expect(page.get_by_text(LOST)).to_be_visible()
    with ThreadedHub(tmp_path / "hub", hub__listen=address):
        page.get_by_role("button", name="Retry now").click()
        expect(page.get_by_text(LOST)).to_be_hidden()
