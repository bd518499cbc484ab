"""Empty states of the page: no machine, no match, no GPU."""

import re

from playwright.sync_api import Page, expect

from tests.builders import gpu, snapshot
from tests.page.accounts import ADMIN, add_accounts, sign_in
from tests.server.threaded_hub import ThreadedHub


def test_an_empty_hub_leads_to_its_first_machine(hub: ThreadedHub, page: Page) -> None:
    page.goto(hub.url)
    expect(page.get_by_role("heading", name="Add your first machine")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Waiting for the first")).to_be_visible()
    expect(page.get_by_text("fleet-smi hub join-command", exact=True)).to_be_visible()
    hub.join_and_report(snapshot(gpu(0)))
    expect(page.get_by_text("gpu01 joined, 1 × H100 80GB HBM3")).to_be_visible()
    page.get_by_role("button", name="Open the fleet").click()
    expect(page.get_by_role("gridcell")).to_have_count(1)


def test_an_admin_of_an_empty_hub_gets_the_lines_to_run(hub: ThreadedHub, page: Page) -> None:
    add_accounts(hub)
    sign_in(page, hub, ADMIN)
    page.get_by_role("button", name="Create join command").click()
    lines = page.get_by_role("main").locator("code")
    expect(lines.filter(has_text="sha256sum -c")).to_be_visible()
    expect(lines.filter(has_text="fleet-smi join gpu01 gpu02 'lab-*'")).to_be_visible()
    expect(lines.filter(has_text="| fleet-smi agent --to")).to_be_visible()
    expect(lines.filter(has_text="| sudo fleet-smi service install agent --to")).to_be_visible()


def test_no_match_shows_a_message_and_the_filter_can_be_cleared(
    lab: ThreadedHub, page: Page
) -> None:
    page.goto(f"{lab.url}/#/?q=user:nobody-here")
    expect(page.get_by_role("heading", name="No matching GPUs")).to_be_visible()
    page.get_by_role("combobox", name="Search").focus()
    page.get_by_role("button", name="Clear filter").first.click()
    expect(page.get_by_role("heading", name="No matching GPUs")).to_have_count(0)
    expect(page).to_have_url(f"{lab.url}/#/")


def test_a_fleet_without_any_gpu_is_still_a_fleet(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(node="cpu01"))
    page.goto(hub.url)
    expect(page.get_by_role("row").filter(has_text="cpu01")).to_contain_text("no GPU")
    expect(page).to_have_title(re.compile("^0 free"))
