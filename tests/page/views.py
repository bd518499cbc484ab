"""The views of the page, and a selector by which each is known to be rendered."""

from playwright.sync_api import Page, expect

from tests.server.threaded_hub import ThreadedHub

VIEWS = {
    "grid": ("", "role=gridcell >> visible=true"),
    "table": ("table", "td.uuid"),
    "heat map": ("heat", "role=application >> canvas"),
    "people": ("people", "role=rowheader"),
    "person": ("person/bob", "role=listitem >> role=link"),
    "history": ("history?range=1h", ".blocks > i.busy"),
    "trends": ("trends?range=24h", "text=Idle by person"),
    "queue": ("queue", "text=No GPU is leased"),
    "node": ("node/id-of-gpu01", "figure canvas"),
    "gpu": ("gpu/GPU-of-alice", "figure canvas"),
    "sign in": ("signin", "input[type=password]"),
    "set-up": ("setup", "text=Create token"),
}
"""Name -> address, and a selector that matches once the view is rendered."""

SPECIAL_VIEWS = {
    "broken GPU": ("gpu/GPU-broken", "text=Copy for a ticket"),
    "MIG": ("gpu/GPU-in-parts", "figure canvas"),
    "no match": ("?q=user:nobody-here", "text=No matching GPUs"),
    "unknown person": ("person/nobody-here", "text=User not found"),
    "unknown job": ("job/none", "text=Job not found"),
    "unknown node": ("node/nowhere", "text=Node not found"),
    "unknown GPU": ("gpu/GPU-nowhere", "text=GPU not found"),
}
"""The same for views that are seldom seen."""
PHONE_GRID = "text=Free now"


def open_view(page: Page, hub: ThreadedHub, name: str) -> None:
    """Open a view, and wait until it is rendered."""
    address, selector = (VIEWS | SPECIAL_VIEWS)[name]
    size = page.viewport_size
    if name == "grid" and size is not None and size["width"] <= 720:
        selector = PHONE_GRID
    page.goto(f"{hub.url}/#/{address}")
    expect(page.locator(selector).first).to_be_visible()


def fits_viewport(page: Page) -> bool:
    """Whether the page needs no horizontal scrolling."""
    inside: bool = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    return inside
