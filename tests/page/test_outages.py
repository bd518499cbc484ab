"""What the page shows when something fails: lazy views, sessions, the way back."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.builders import gpu, snapshot
from tests.page.accounts import PASSWORD, VIEWER, add_accounts, submit_sign_in
from tests.page.page_pool import NewPage
from tests.page.sample_fleet import COUNTS
from tests.server.threaded_hub import ThreadedHub

LOAD_ALL = "window.requestIdleCallback = (run) => setTimeout(run)"


def test_a_view_that_could_not_be_loaded_opens_when_the_hub_is_back(
    tmp_path: Path, new_page: NewPage
) -> None:
    page = new_page(single_use=True)
    page.add_init_script("window.requestIdleCallback = () => 0")  # nothing is loaded in advance
    with ThreadedHub(tmp_path / "hub") as before:
        before.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        page.goto(before.url)
        expect(page.get_by_role("gridcell")).to_have_count(1)
        address = before.url.removeprefix("http://")
    page.get_by_role("link", name="People").click()
    expect(page.get_by_role("heading", name="Could not load this view")).to_be_visible()
    with ThreadedHub(tmp_path / "hub", hub__listen=address):
        expect(page.get_by_role("heading", name="People")).to_be_visible()


def test_what_was_lost_in_an_outage_is_loaded_when_the_hub_is_back(
    tmp_path: Path, new_page: NewPage
) -> None:
    page = new_page(single_use=True)
    with ThreadedHub(tmp_path / "hub", hub__trusted_proxies=["127.0.0.1"]) as before:
        report = snapshot(gpu(0, uuid="GPU-first"), interval_seconds=60.0)
        token = before.join_and_report(report)
        add_accounts(before)
        page.goto(before.url)
        submit_sign_in(page, VIEWER, PASSWORD)
        expect(page.get_by_role("gridcell")).to_have_count(1)
        page.route("**/api/v1/session", lambda route: route.abort())
        page.reload()
        expect(page.get_by_role("link", name="Sign in")).to_be_visible()
        page.unroute("**/api/v1/session")
        address = before.url.removeprefix("http://")
    page.goto(f"{before.url}/#/gpu/GPU-first")
    expect(page.get_by_text("Connection to the hub lost.")).to_be_visible()
    with ThreadedHub(
        tmp_path / "hub", hub__trusted_proxies=["127.0.0.1"], hub__listen=address
    ) as after:
        after.report(report, token=token)
        expect(page.get_by_role("banner")).to_contain_text(VIEWER)
        expect(page.get_by_text("GPU-first")).to_be_visible()


def test_views_are_loaded_in_advance_and_open_without_the_hub(
    hub: ThreadedHub, new_page: NewPage
) -> None:
    page = new_page(single_use=True)
    page.add_init_script(LOAD_ALL)
    hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
    with page.expect_response(re.compile("SetupPage.*js")):
        page.goto(hub.url)
    hub.stop()
    page.get_by_role("link", name="People").click()
    expect(page.get_by_role("heading", name="People")).to_be_visible()


def test_after_the_session_one_signs_in_again_and_is_back_in_place(
    tmp_path: Path, page: Page
) -> None:
    with ThreadedHub(tmp_path / "hub", hub__trusted_proxies=["127.0.0.1"]) as hub:
        hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
        add_accounts(hub)
        page.goto(f"{hub.url}/#/?q=free")
        submit_sign_in(page, VIEWER, PASSWORD)
        expect(page.get_by_role("gridcell")).to_have_count(1)
        page.goto(f"{hub.url}/#/people")
        expect(page.get_by_role("heading", name="People")).to_be_visible()
        page.context.clear_cookies()
        expect(page.get_by_role("alert")).to_contain_text("Your session has ended.")
        page.get_by_role("button", name="Sign in").click()
        form = page.get_by_role("dialog", name="Sign in")
        expect(form.get_by_text("You will return to this view.")).to_be_visible()
        form.get_by_label("Name").fill(VIEWER)
        form.get_by_label("Password").fill(PASSWORD)
        form.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_role("heading", name="People")).to_be_visible()
        expect(page).to_have_url(re.compile("#/people"))


def test_signing_in_leads_back_to_the_view_before(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/table?q=held")
    expect(page.locator("td.uuid")).to_have_count(COUNTS["held"])
    page.get_by_role("link", name="Sign in").click()
    submit_sign_in(page, VIEWER, PASSWORD)
    expect(page).to_have_url(re.compile(r"#/table\?q=held$"))
    expect(page.get_by_role("banner")).to_contain_text(VIEWER)


def test_a_broken_gpu_opens_with_the_verdict_and_what_to_do(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/gpu/GPU-broken")
    verdict = page.get_by_role("region", name=re.compile("Broken for .*: fell off the bus"))
    expect(verdict.get_by_role("heading", name="Reboot the machine")).to_be_visible()
    expect(verdict.get_by_text("fleet-smi doctor")).to_be_visible()
    folded = page.get_by_text(re.compile(r"^\d+ figures not readable$"))
    expect(page.get_by_text("ECC corrected")).to_be_hidden()
    folded.click()
    expect(page.get_by_text("ECC corrected")).to_be_visible()
