"""The set-up page: join commands, names and removal of nodes, tokens."""

from hashlib import sha256

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.builders import gpu, snapshot
from tests.machines import wait_until
from tests.page.accounts import ADMIN, VIEWER, add_accounts, sign_in
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def setup(hub: ThreadedHub, page: Page) -> Page:
    """The set-up page of a hub with one node, for an admin."""
    hub.join_and_report(snapshot(gpu(0), interval_seconds=60.0))
    add_accounts(hub)
    sign_in(page, hub, ADMIN)
    page.get_by_role("link", name="Setup").click()
    expect(page.get_by_role("heading", name="Setup")).to_be_visible()
    return page


def _row(setup: Page, text: str) -> Locator:
    return setup.get_by_role("listitem").filter(has_text=text)


def test_the_join_command_works(hub: ThreadedHub, setup: Page) -> None:
    setup.get_by_role("button", name="Create join command").click()
    line = setup.locator("code").filter(has_text="| fleet-smi agent").inner_text()
    arguments = line.split()
    assert arguments[3:7] == ["fleet-smi", "agent", "--to", hub.url]
    # The line to paste has the checksum of the script that the hub serves.
    script = hub.request("GET", "/install").body
    install = setup.locator("code").filter(has_text="sha256sum -c").inner_text()
    assert install.endswith(f"{sha256(script).hexdigest()} {hub.url}")
    expect(setup.get_by_text("valid for 24 hours and 100 machines")).to_be_visible()
    expect(setup.get_by_text("Waiting for the first machine")).to_be_visible()
    hub.join_and_report(snapshot(gpu(0, uuid="GPU-new"), node="new"))
    expect(setup.get_by_text("new joined")).to_be_visible()


def test_an_account_is_added_promoted_and_removed(hub: ThreadedHub, setup: Page) -> None:
    accounts = setup.get_by_role("region", name="Accounts")
    accounts.get_by_label("Name").fill("kim")
    accounts.get_by_label("Password").fill("a long enough one")
    accounts.get_by_role("button", name="Add account").click()
    expect(accounts.get_by_text("kim can sign in now.")).to_be_visible()
    accounts.get_by_label("Role of kim").select_option("admin")
    expect(accounts.get_by_text("kim is now admin.")).to_be_visible()
    accounts.get_by_role("button", name="Reset password of kim").click()
    accounts.get_by_label("New password for kim").fill("another long one")
    accounts.get_by_role("button", name="Set password", exact=True).click()
    expect(accounts.get_by_text("The password of kim was changed")).to_be_visible()
    assert hub.server.credentials.users.verify_password("kim", "another long one")
    accounts.get_by_role("button", name="Remove kim").click()
    accounts.get_by_role("button", name="Remove", exact=True).click()
    expect(accounts.get_by_text("kim was removed.")).to_be_visible()
    expect(accounts.get_by_label(f"Role of {ADMIN}")).to_be_disabled()


def test_a_token_is_made_shown_once_and_revoked_once_confirmed(
    hub: ThreadedHub, setup: Page
) -> None:
    setup.get_by_label("Note").fill("for the dashboard")
    setup.get_by_role("button", name="Create token").click()
    expect(setup.get_by_text("It is shown only once.")).to_be_visible()
    secret = setup.get_by_role("region", name="Tokens").locator("code").inner_text()
    assert hub.request("GET", "/api/v1/fleet", token=secret).status == 200
    row = _row(setup, "for the dashboard")
    row.get_by_role("button", name="Revoke for the dashboard").click()
    row.get_by_role("button", name="Cancel").click()
    row.get_by_role("button", name="Revoke for the dashboard").click()
    row.get_by_role("button", name="Revoke", exact=True).click()
    expect(row).to_have_count(0)
    assert hub.request("GET", "/api/v1/fleet", token=secret).status == 401


def test_node_tokens_are_counted(setup: Page) -> None:
    expect(setup.get_by_text("have their own tokens (1)")).to_be_visible()


def test_a_node_is_renamed_and_labelled(hub: ThreadedHub, setup: Page) -> None:
    setup.get_by_role("button", name="Edit gpu01").click()
    setup.get_by_label("Name").first.fill("big-one")
    setup.get_by_label("Labels").fill("rack=a, room=2")
    setup.get_by_role("button", name="Save").click()
    expect(_row(setup, "big-one")).to_contain_text("rack=a")
    [node] = hub.fleet().nodes
    assert (node.name, node.labels) == ("big-one", {"rack": "a", "room": "2"})


def test_an_invalid_label_is_refused_with_a_reason(setup: Page) -> None:
    setup.get_by_role("button", name="Edit gpu01").click()
    setup.get_by_label("Labels").fill("rack")
    setup.get_by_role("button", name="Save").click()
    expect(setup.get_by_role("alert")).to_be_visible()


def test_a_node_is_removed_only_when_that_is_confirmed(hub: ThreadedHub, setup: Page) -> None:
    setup.get_by_role("button", name="Remove gpu01").click()
    expect(setup.get_by_text("Remove gpu01?")).to_be_visible()
    setup.get_by_role("button", name="Cancel").click()
    assert len(hub.fleet().nodes) == 1
    setup.get_by_role("button", name="Remove gpu01").click()
    setup.get_by_role("button", name="Remove", exact=True).click()
    expect(setup.get_by_role("heading", name="0 nodes")).to_be_visible()
    wait_until(lambda: not hub.fleet().nodes)


@pytest.mark.parametrize("name", [VIEWER, None])
def test_only_admins_see_the_setup_page(lab: ThreadedHub, page: Page, name: str | None) -> None:
    if name:
        sign_in(page, lab, name)
    page.goto(f"{lab.url}/#/setup")
    expect(page.get_by_role("heading", name="Setup is for admins")).to_be_visible()
    expect(page.get_by_role("link", name="Setup")).to_have_count(0)
    expect(page.get_by_role("button", name="Create token")).to_have_count(0)
