"""The people view: each user's GPUs as the hub has them, and links to them."""

import re

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.page.sample_fleet import COUNTS
from tests.server.threaded_hub import ThreadedHub

PEOPLE = ("alice", "bob", "carol")


def test_every_user_is_listed_with_their_gpus(lab: ThreadedHub, page: Page) -> None:
    people = msgspec.json.decode(lab.request("GET", "/api/v1/people").body)["people"]
    assert {person["user"] for person in people if person["seen"]} == set(PEOPLE)
    page.goto(f"{lab.url}/#/people")
    for person in people:
        row = page.get_by_role("row").filter(has_text=person["user"])
        expect(row).to_contain_text(str(person["gpus"]))
        expect(row.get_by_title("gpu01")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="bob")).to_contain_text("1 idle for 12 min")
    expect(page.get_by_text("1 idle.")).to_be_visible()


@pytest.mark.parametrize(("place", "link"), [("", "bob"), ("person/bob", "current GPUs")])
def test_a_click_on_a_name_shows_what_they_have(
    lab: ThreadedHub, page: Page, place: str, link: str
) -> None:
    page.goto(f"{lab.url}/#/{place}")
    page.get_by_role("link", name=link).click()
    expect(page).to_have_url(re.compile(r"#/\?q=user:bob$"))
    expect(page.get_by_role("combobox", name="Search")).to_have_value("user:bob")
    expect(page.locator(".cell.dimmed")).to_have_count(sum(COUNTS.values()) - 1)


def test_people_are_sorted_by_any_column(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/people")
    names = page.get_by_role("rowheader")
    expect(names).not_to_have_count(0)
    page.get_by_role("button", name="User").first.click()
    page.get_by_role("columnheader", name="User").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="User")).to_have_attribute(
        "aria-sort", re.compile("ascending|descending")
    )
    page.get_by_role("columnheader", name="Utilisation").get_by_role("button").click()
    expect(names.first).to_have_text("bob")  # the only one who holds an idle GPU


def test_the_jobs_of_a_person_are_told_apart(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/person/bob")
    line = page.get_by_role("listitem").get_by_role("link", name=re.compile("^notebook"))
    expect(line).to_contain_text("1 job, running")
    page.get_by_role("button", name="Most idle").click()
    line.click()
    expect(page).to_have_url(re.compile("#/job/"))


def test_trends_compare_months_and_offer_the_report(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/history")
    page.get_by_role("link", name="Trends").click()
    expect(page.get_by_role("button", name=re.compile("busy [0-9]+ %")).last).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="GPU-hours busy")).to_be_visible()
    page.get_by_text("Download report").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV of Shown range").click()
    assert found.value.suggested_filename.endswith(".csv")
    assert "alice" in found.value.path().read_text()


def test_without_users_there_is_a_message(hub: ThreadedHub, page: Page) -> None:
    page.goto(f"{hub.url}/#/people")
    expect(page.get_by_text("No GPUs in use.")).to_be_visible()
