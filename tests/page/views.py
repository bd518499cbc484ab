"""The views of the lab, and how each is known to be drawn."""

from playwright.sync_api import Page, expect

from tests.server.threaded_hub import ThreadedHub

VIEWS = {
    "grid": ("", "role=gridcell >> visible=true"),
    "table": ("table", "td.uuid"),
    "heat map": ("heat", "role=application >> canvas"),
    "people": ("people", "role=rowheader"),
    "person": ("person/bob", "role=listitem >> role=link"),
    "history": ("history?range=1h", ".blocks > i.busy"),
    "node": ("node/id-of-gpu01", "figure canvas"),
    "gpu": ("gpu/GPU-of-alice", "figure canvas"),
    "sign in": ("signin", "input[type=password]"),
    "set-up": ("setup", "text=Create token"),
}
"""By name: the address, and what is there once it is drawn."""


def open_view(page: Page, hub: ThreadedHub, name: str) -> None:
    """Open a view, and wait until it is drawn."""
    address, drawn = VIEWS[name]
    page.goto(f"{hub.url}/#/{address}")
    expect(page.locator(drawn).first).to_be_visible()


def fits_viewport(page: Page) -> bool:
    """Whether nothing has to be scrolled sideways."""
    inside: bool = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    return inside
