"""The page as a person sees it: what is shown, what is live, and what can do no harm."""

from playwright.sync_api import Page, expect

from tests.builders import gpu, process, snapshot
from tests.server.hubs import RunningHub

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m",
    "gpu\u202e10",
    "x" * 10_000,
)


def test_what_the_hub_hears_is_on_the_page_at_once(hub: RunningHub, page: Page) -> None:
    hub.add(snapshot(gpu(0), gpu(1, processes=(process(user="alice"),))))
    page.goto(hub.url)
    expect(page.get_by_text("gpu01").first).to_be_visible()
    expect(page.get_by_text("alice").first).to_be_visible()
    hub.add(snapshot(gpu(0, uuid="GPU-second"), node="gpu02"))
    expect(page.get_by_text("gpu02").first).to_be_visible()


def test_names_from_outside_are_text_and_nothing_else(hub: RunningHub, page: Page) -> None:
    for at, name in enumerate(HOSTILE):
        its = gpu(0, uuid=f"GPU-{at}", processes=(process(user=name),))
        token = hub.join(f"hostile-{at}", "hostile")
        hub.report(snapshot(its, node_id=f"hostile-{at}", name=name), token=token)
    page.goto(hub.url)
    expect(page.get_by_text("<img src=x").first).to_be_visible()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
