"""The grid: one row per node, one cell per GPU, and the card with the details."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.machines import wait_until
from tests.page.accounts import ADMIN, sign_in
from tests.page.sample_fleet import COMMAND, COUNTS
from tests.server.threaded_hub import ThreadedHub

INKED = """canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value, at) => at % 4 === 3 && value > 0);
}"""


@pytest.fixture
def grid(lab: ThreadedHub, page: Page) -> Locator:
    """The grid of the sample fleet, once all cells are rendered."""
    page.goto(lab.url)
    found = page.get_by_role("grid", name="GPUs by node")
    expect(found.get_by_role("gridcell")).to_have_count(sum(COUNTS.values()))
    return found


def _cell(page: Page, name: str) -> Locator:
    return page.get_by_role("gridcell", name=name)


def _card(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog", name=name)


def _nodes(grid: Locator) -> list[str]:
    """Return the names of the nodes, from top to bottom."""
    return grid.get_by_role("rowheader").get_by_role("link").locator("b").all_inner_texts()


def _headings(grid: Locator) -> list[str]:
    return grid.locator(".group b").all_inner_texts()


def _choose(page: Page, what: str, option: str) -> None:
    page.get_by_role("combobox", name=what).select_option(label=option)


def test_a_cell_shows_state_user_memory_and_load(grid: Locator) -> None:
    expect(grid.get_by_role("gridcell", name="gpu01 GPU 0, free")).to_contain_text("free")
    busy = grid.get_by_role("gridcell", name="gpu01 GPU 1, busy, alice")
    expect(busy).to_contain_text("alice")
    expect(busy).to_contain_text("16/80 GiB")
    expect(busy).to_contain_text("87%")
    held = grid.get_by_role("gridcell", name="gpu01 GPU 2, held, bob")
    expect(held).to_contain_text("idle 12 m")
    expect(grid.get_by_role("gridcell", name="gpu03 GPU 0, broken")).to_contain_text("broken")
    expect(grid.get_by_role("gridcell", name="gpu03 GPU 1, ghost")).to_contain_text("31/80")


def test_every_state_has_a_symbol_besides_its_colour(grid: Locator) -> None:
    for cell in grid.get_by_role("gridcell").all():
        expect(cell.locator(".glyph").first).to_be_visible()


def test_a_gpu_that_is_taken_or_closed_has_shape_word_and_reason(grid: Locator) -> None:
    cell = grid.get_by_role("gridcell", name="gpu03 GPU 2, leased")
    expect(cell).to_contain_text("leased")
    expect(cell).to_contain_text("closed by the administrator")
    expect(cell.locator(".glyph.leased")).to_be_visible()


def test_the_instances_of_a_gpu_are_inside_its_cell(grid: Locator) -> None:
    cell = grid.get_by_role("gridcell", name="gpu01 GPU 3")
    expect(cell).to_have_accessible_name(re.compile("MIG 1g.10gb, busy, carol; MIG 2g.20gb, free"))
    expect(cell.locator(".slice")).to_have_count(2)
    expect(cell).to_contain_text("carol")


def test_a_silent_node_stays_with_its_last_data_and_says_so(grid: Locator) -> None:
    row = grid.get_by_role("row").filter(has_text="gpu04")
    expect(row).to_contain_text("silent for")
    expect(row.get_by_role("gridcell")).to_have_accessible_name(re.compile("unknown, was free"))


def test_a_node_without_a_gpu_says_so(grid: Locator) -> None:
    row = grid.get_by_role("row").filter(has_text="cpu01")
    expect(row).to_contain_text("no GPU")
    expect(row.get_by_role("gridcell")).to_have_count(0)


def test_pointing_at_a_cell_opens_its_card_and_leaving_closes_it(grid: Locator, page: Page) -> None:
    _cell(page, "gpu01 GPU 1").hover()
    card = _card(page, "gpu01 GPU 1")
    for text in ("Used by alice", "16 / 80 GiB", "87 %", "512 / 700 W", "33 °C", "16 GiB"):
        expect(card).to_contain_text(text)
    page.get_by_role("link", name="fleet-smi").hover()
    expect(card).to_be_hidden()


def test_a_viewer_sees_the_name_of_a_program_and_no_more(grid: Locator, page: Page) -> None:
    _cell(page, "gpu01 GPU 1").click()
    process = _card(page, "gpu01 GPU 1").get_by_role("row").filter(has_text="alice")
    expect(process).to_contain_text("python")
    expect(process).not_to_contain_text("train.py")


def test_an_admin_sees_the_whole_command(lab: ThreadedHub, page: Page) -> None:
    sign_in(page, lab, ADMIN)
    _cell(page, "gpu01 GPU 1").click()
    expect(_card(page, "gpu01 GPU 1")).to_contain_text(COMMAND)


def test_a_click_keeps_the_card_open_until_it_is_closed(grid: Locator, page: Page) -> None:
    _cell(page, "gpu03 GPU 0").click()
    card = _card(page, "gpu03 GPU 0")
    expect(card).to_contain_text("Fell off the bus")
    expect(card).to_contain_text("Reboot the machine")
    page.get_by_role("link", name="fleet-smi").hover()
    card.get_by_role("button", name="Close").click()
    expect(card).to_be_hidden()


def test_the_card_of_a_mig_gpu_lists_its_instances(grid: Locator, page: Page) -> None:
    _cell(page, "gpu01 GPU 3").click()
    parts = _card(page, "gpu01 GPU 3").get_by_role("list", name="Instances").get_by_role("listitem")
    expect(parts).to_have_count(2)
    expect(parts.first).to_contain_text("1g.10gb")
    expect(parts.first).to_contain_text("carol")
    expect(parts.last).to_contain_text("free")


def test_tab_enters_the_card_and_escape_returns_to_the_cell(grid: Locator, page: Page) -> None:
    cell = _cell(page, "gpu01 GPU 1")
    cell.click()
    expect(_card(page, "gpu01 GPU 1")).to_contain_text("python")
    page.keyboard.press("Tab")
    expect(_card(page, "gpu01 GPU 1").get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Tab")
    expect(_card(page, "gpu01 GPU 1").get_by_role("link", name="Open GPU")).to_be_focused()
    page.keyboard.press("Escape")
    expect(_card(page, "gpu01 GPU 1")).to_be_hidden()
    expect(cell).to_be_focused()


def test_arrow_keys_walk_the_grid_and_the_card_follows(grid: Locator, page: Page) -> None:
    grid.get_by_role("link", name="gpu01").focus()
    page.keyboard.press("ArrowRight")
    expect(_cell(page, "gpu01 GPU 0")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(_cell(page, "gpu01 GPU 1")).to_be_focused()
    expect(_card(page, "gpu01 GPU 1")).to_contain_text("Used by alice")
    page.keyboard.press("ArrowDown")
    expect(_cell(page, "gpu03 GPU 1")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/gpu/GPU-ghost$"))


def test_nodes_are_grouped_by_label_model_or_user(grid: Locator, page: Page) -> None:
    assert _headings(grid) == ["rack a", "rack b", "no rack"]
    expect(grid.get_by_role("row").filter(has_text="rack a")).to_contain_text("3 of 6 free")
    _choose(page, "Group", "model")
    expect(grid.get_by_text("A100-SXM4-40GB", exact=True)).to_be_visible()
    _choose(page, "Group", "user")
    assert _headings(grid) == ["alice", "bob", "carol", "no user"]
    expect(grid.get_by_role("row").filter(has_text="bob").first).to_contain_text("1 GPU on 1 node")
    # Each GPU is in one group: that of its user.
    expect(grid.get_by_role("gridcell")).to_have_count(sum(COUNTS.values()))
    expect(grid.get_by_role("rowheader", name="gpu01")).to_have_count(4)
    _choose(page, "Group", "none")
    expect(grid.locator(".group")).to_have_count(0)
    expect(grid.get_by_role("gridcell")).to_have_count(sum(COUNTS.values()))


def test_nodes_are_sorted_by_name_by_what_is_free_by_load_or_by_need(
    grid: Locator, page: Page
) -> None:
    _choose(page, "Group", "none")
    first = grid.get_by_role("rowheader").get_by_role("link").first
    expect(first).to_contain_text("cpu01")
    assert _nodes(grid) == ["cpu01", "gpu01", "gpu02", "gpu03", "gpu04"]
    for order, node in {"most free": "gpu02", "load": "gpu01", "needs attention": "gpu03"}.items():
        _choose(page, "Sort", order)
        expect(first).to_contain_text(node)


def test_grid_density_is_remembered(grid: Locator, page: Page) -> None:
    tall = _height(page)
    page.get_by_role("button", name="Compact").click()
    expect(page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
    assert _height(page) < tall
    page.reload()
    expect(page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("d")
    expect(page.get_by_role("button", name="Grid", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def _height(page: Page) -> float:
    box = _cell(page, "gpu01 GPU 0").bounding_box()
    assert box is not None
    return box["height"]


def test_the_heat_map_is_drawn_and_walked_by_keys(grid: Locator, page: Page) -> None:
    page.get_by_role("button", name="Heat map").click()
    heat = page.get_by_role("application", name="Heat map of all GPUs")
    expect(heat.locator("canvas")).to_be_visible()
    # Not `wait_for_function`: it evaluates a text, which the page's security policy forbids.
    wait_until(lambda: bool(heat.locator("canvas").evaluate(INKED)))
    heat.focus()
    page.keyboard.press("ArrowRight")
    expect(heat).to_contain_text("gpu01 GPU 0, free")
    page.keyboard.press("ArrowRight")
    expect(heat).to_contain_text("gpu01 GPU 1, busy, alice")
    expect(_card(page, "gpu01 GPU 1")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/gpu/GPU-of-alice$"))


def test_gpus_that_do_not_match_the_filter_are_dimmed(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/?q=user:alice")
    expect(page.locator(".cell.dimmed")).to_have_count(sum(COUNTS.values()) - 1)
    expect(_cell(page, "gpu01 GPU 1")).not_to_have_class(re.compile("dimmed"))
