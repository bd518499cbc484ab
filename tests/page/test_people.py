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


def test_without_users_there_is_a_message(hub: ThreadedHub, page: Page) -> None:
    page.goto(f"{hub.url}/#/people")
    expect(page.get_by_text("No GPUs in use.")).to_be_visible()
