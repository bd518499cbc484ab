"""Touch targets: controls are large enough for a finger on a phone, and for a mouse."""

from playwright.sync_api import Page, expect

from tests.page.accounts import ADMIN, sign_in
from tests.page.page_pool import NewPage
from tests.page.views import SPECIAL_VIEWS, VIEWS, open_view
from tests.server.threaded_hub import ThreadedHub

PHONE = {"width": 390, "height": 844}
SMALL = r"""(least) => {
    const controls = "a[href], button, input, select, summary, textarea, [role=option]";
    const reach = least / 2 - 0.5;
    const hits = (control, x, y) => {
        const at = document.elementFromPoint(x, y);
        return at !== null && (control.contains(at) || at.closest("label")?.contains(control));
    };
    // A link within a sentence is as high as its line.
    const isInText = (control) => getComputedStyle(control).display === "inline"
        && [...control.parentElement.childNodes].some(
            (each) => each !== control && each.textContent.trim().length > 1);
    const found = [];
    for (const control of document.querySelectorAll(controls)) {
        const style = getComputedStyle(control);
        if (style.visibility === "hidden" || control.disabled) continue;
        if (!control.checkVisibility()) continue;
        // Marks in a chart are as large as the data; what they lead to is elsewhere as well.
        if (control.closest(".visually-hidden, .then, .chart") || isInText(control)) continue;
        control.scrollIntoView({ block: "center", inline: "nearest" });
        const touched = control.closest("label") ?? control;
        const { left, top, width, height } = touched.getBoundingClientRect();
        if (width === 0 || (width >= least - 0.5 && height >= least - 0.5)) continue;
        const [x, y] = [left + width / 2, top + height / 2];
        if (x < 0 || x > innerWidth) continue;
        // Eight GPUs of a node stand abreast on a phone; the page of the node has them large.
        const wide = control.closest(".squares") ? 24 : least;
        const isHigh = height >= least - 0.5
            || (hits(control, x, y - reach) && hits(control, x, y + reach));
        const isWide = width >= wide - 0.5
            || (hits(control, x - reach, y) && hits(control, x + reach, y));
        if (isHigh && isWide) continue;
        const name = control.getAttribute("aria-label") ?? control.textContent.trim();
        const size = `${width.toFixed(0)} x ${height.toFixed(0)}`;
        found.push(`${control.tagName.toLowerCase()} "${name.slice(0, 40)}" ${size}`);
    }
    return [...new Set(found)];
}"""
"""Returns the controls that are smaller than `least` pixels, as touched and not as drawn."""


def _small_controls(page: Page, lab: ThreadedHub, least: int) -> dict[str, list[str]]:
    found = {}
    for view in VIEWS | SPECIAL_VIEWS:
        open_view(page, lab, view)
        found[view] = page.evaluate(SMALL, least)
    return {view: small for view, small in found.items() if small}


def test_controls_on_a_phone_are_44_pixels_large(lab: ThreadedHub, new_page: NewPage) -> None:
    phone = new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    sign_in(phone, lab, ADMIN)
    assert _small_controls(phone, lab, 44) == {}
    open_view(phone, lab, "grid")
    phone.get_by_role("button", name="gpu01 GPU 2").tap()
    expect(phone.get_by_role("dialog").get_by_role("button", name="Ask bob")).to_be_visible()
    assert phone.evaluate(SMALL, 44) == []
    phone.keyboard.press("Escape")
    phone.locator("summary", has_text="I need a GPU").tap()
    expect(phone.get_by_role("button", name="More GPUs")).to_be_visible()
    assert phone.evaluate(SMALL, 44) == []


def test_controls_on_a_desk_are_24_pixels_large(lab: ThreadedHub, page: Page) -> None:
    sign_in(page, lab, ADMIN)
    assert _small_controls(page, lab, 24) == {}
