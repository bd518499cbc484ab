"""Accounts of a hub: an admin and a viewer."""

from playwright.sync_api import Page

from tests.server.threaded_hub import ThreadedHub

ADMIN, VIEWER = "ada", "vic"
PASSWORD = "correct horse battery"


def add_accounts(hub: ThreadedHub) -> None:
    """Add both accounts."""
    hub.server.credentials.users.add(ADMIN, PASSWORD, "admin")
    hub.server.credentials.users.add(VIEWER, PASSWORD, "viewer")
    hub.server.credentials.refresh()


def sign_in(page: Page, hub: ThreadedHub, name: str) -> None:
    """Sign in over the API, without the form, and open the grid."""
    response = page.request.post(
        f"{hub.url}/api/v1/session",
        data={"name": name, "password": PASSWORD},
        headers={"Origin": hub.url},
    )
    assert response.ok, response.status
    page.goto(hub.url)


def submit_sign_in(page: Page, name: str, password: str) -> None:
    """Fill in the form and submit it."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
