"""History on the page: heat strip, time travel, plots of any range, people, jobs."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.builders import MINUTE
from tests.machines import wait_until
from tests.page import sample_history
from tests.page.accessibility import accessibility_violations
from tests.page.page_pool import NewPage, PagePool
from tests.page.views import fits_viewport
from tests.server.threaded_hub import ThreadedHub

DAY = 86400.0
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with three hours of history."""
    with ThreadedHub(tmp_path_factory.mktemp("remembered")) as hub:
        sample_history.report_history(hub)
        yield hub


@pytest.fixture(scope="module")
def desk(page_pool: PagePool) -> Iterator[Page]:
    """One page for all tests: changing the address on the same hub does not reload it."""
    with page_pool.checked_pages() as opened:
        yield opened()


@pytest.fixture
def page(desk: Page, remembered: ThreadedHub) -> Page:
    """The page on the fleet view, whatever the test before left open."""
    desk.goto(f"{remembered.url}/#/")
    # Another view keeps its state until the fleet has taken its place.
    expect(desk.get_by_role("gridcell").first).to_be_visible()
    return desk


@pytest.fixture(scope="module")
def phone(page_pool: PagePool) -> Iterator[Page]:
    """The same on a phone."""
    with page_pool.checked_pages() as opened:
        yield opened(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)


def _ago(minutes: int) -> str:
    """Return a time as written in the address."""
    moment = datetime.fromtimestamp(time.time() - minutes * MINUTE, UTC)
    return moment.strftime("%Y-%m-%dT%H:%MZ")


def _day(moment: float) -> str:
    """Return a day as written in a date field."""
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def _blocks(page: Page, pattern: str) -> Locator:
    return page.get_by_role("img", name=re.compile(pattern))


def test_the_heat_strip_shows_who_had_what(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/history?range=6h")
    expect(_blocks(page, "gpu01 GPU 0–1: alice, busy")).to_have_text("alice")
    expect(_blocks(page, "gpu01 GPU 0: bob, held")).to_have_text("bob idle")
    expect(_blocks(page, "gpu02 GPU 0–1: silent")).not_to_have_count(0)
    gpu02 = page.get_by_role("region", name="gpu02")
    expect(gpu02.get_by_role("link", name="carol")).to_be_visible()


def test_the_strip_is_of_what_the_filter_leaves(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/history?range=6h&q=user:carol")
    expect(page.get_by_role("region", name="gpu02")).to_be_visible()
    expect(page.get_by_role("region", name="gpu01")).to_have_count(0)


def test_a_click_on_the_strip_shows_that_moment(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/history?range=6h")
    _blocks(page, "gpu01 GPU 0–1: alice, busy").click()
    expect(page).to_have_url(re.compile(r"#/history\?at=[-\dT:]+Z&range=6h$"))
    expect(page.get_by_text(re.compile("^Viewing .* today|yesterday"))).to_be_visible()
    gpu01 = page.get_by_role("region", name="gpu01")
    expect(gpu01.get_by_role("link", name="alice")).to_have_count(2)


def test_keys_step_through_time_and_lead_back(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/history?range=1h")
    expect(_blocks(page, "carol").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("at="))
    first = page.url
    page.keyboard.press("ArrowLeft")
    expect(page).not_to_have_url(first)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(first)
    page.keyboard.press("l")
    expect(page).to_have_url(re.compile(r"#/history\?range=1h$"))
    expect(page.get_by_text("Viewing")).to_have_count(0)


def test_back_leaves_the_past_and_the_zoom_is_in_the_address(
    remembered: ThreadedHub, page: Page
) -> None:
    page.goto(f"{remembered.url}/#/history?range=1h")
    expect(_blocks(page, "carol").first).to_be_visible()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Viewing")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("Viewing")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"#/history\?range=1h$"))
    zoom = f"{_ago(60)}..{_ago(30)}"
    page.goto(f"{remembered.url}/#/node/id-of-gpu01?zoom={zoom}")
    page.get_by_role("button", name="Reset zoom").click()
    expect(page).to_have_url(re.compile("#/node/id-of-gpu01$"))


def test_playback_runs_until_now(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/history?range=1h&at={_ago(1)}")
    past = page.get_by_role("region", name="Past moment")
    expect(past).to_contain_text("2 of 2 nodes reporting")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "true")
    expect(past).to_have_count(0)


def test_every_view_shows_the_moment_of_the_address(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/?at={_ago(75)}")
    expect(page.get_by_role("region", name="Past moment")).to_contain_text("1 of 2 nodes reporting")
    expect(page.get_by_role("gridcell", name="gpu01 GPU 1, busy, alice")).to_be_visible()
    expect(page.get_by_role("gridcell", name=re.compile("gpu02 GPU 0, unknown"))).to_be_visible()
    expect(page.get_by_text("I need a GPU")).to_have_count(0)
    page.get_by_role("link", name="Table").click()
    expect(page.get_by_role("row").filter(has_text="alice")).to_have_count(2)
    page.get_by_role("link", name="People", exact=True).click()
    expect(page.get_by_text("1 person had 2 GPUs.")).to_be_visible()
    page.get_by_role("button", name="Back to live").click()
    expect(page.get_by_text("2 people have 2 GPUs.")).to_be_visible()


def test_a_past_moment_is_one_event_and_a_node_is_loaded_at_that_moment(
    remembered: ThreadedHub, page: Page
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{remembered.url}/#/node/id-of-gpu01?at={_ago(75)}")
    expect(page.get_by_role("region", name="Processes")).to_contain_text("alice")
    page.goto(f"{remembered.url}/#/?at={_ago(75)}")
    page.get_by_role("gridcell", name="gpu01 GPU 1, busy, alice").click()
    expect(page.get_by_role("dialog", name="gpu01 GPU 1")).to_contain_text("alice")
    paths = {re.sub(r"[\d.]+$", "", url.removeprefix(remembered.url)) for url in requests}
    assert {"/api/v1/stream/snapshot?at=", "/api/v1/nodes/id-of-gpu01?at="} <= paths
    assert not any(path.startswith("/api/v1/fleet") for path in paths)


def test_the_slider_is_a_way_into_the_past(remembered: ThreadedHub, page: Page) -> None:
    page.goto(remembered.url)
    ribbon = page.get_by_title("GPUs by state over time")
    hide = page.get_by_role("button", name="Hide time slider", expanded=True)
    slider = page.get_by_role("slider", name="Time shown")
    ribbon.click()
    expect(ribbon).to_have_count(0)
    hide.click()
    expect(slider).to_have_count(0)
    ribbon.click()
    slider.press("ArrowLeft")
    expect(page.get_by_role("region", name="Past moment")).to_be_visible()
    expect(hide).to_have_count(0)
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^\d\d:\d\d (today|yesterday)"))
    slider.press("l")
    expect(page.get_by_role("region", name="Past moment")).to_have_count(0)


def test_the_ribbon_causes_no_layout_shift(remembered: ThreadedHub, new_page: NewPage) -> None:
    page = new_page()
    requests: list[Route] = []

    def wait(route: Route) -> None:
        requests.append(route)

    page.route("**/api/v1/history/state", wait)
    cell = page.get_by_role("gridcell", name="gpu01 GPU 0")
    with page.expect_request("**/api/v1/history/state"):
        page.goto(remembered.url)
    before = cell.bounding_box()
    requests[0].continue_()
    expect(page.get_by_title("GPUs by state over time")).to_be_visible()
    assert cell.bounding_box() == before


def test_a_time_before_the_oldest_history_shows_a_message(
    remembered: ThreadedHub, page: Page
) -> None:
    page.goto(f"{remembered.url}/#/?at=2020-01-01T00:00Z")
    expect(page.get_by_text("the history begins at")).to_be_visible()


def test_a_node_has_plots_of_any_range_with_who_had_it(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/node/id-of-gpu01")
    expect(page.get_by_text("last hour").first).to_be_visible()
    page.get_by_role("button", name="6 h").click()
    expect(page).to_have_url(re.compile("range=6h"))
    expect(_blocks(page, "GPU 0: alice, busy")).to_be_visible()
    expect(_blocks(page, "Utilisation: alice, busy")).to_be_visible()
    for title in ("Utilisation", "Memory", "Power", "Temperature", "SM clock"):
        figure = page.get_by_role("figure").filter(has=page.get_by_text(title, exact=True))
        expect(figure.locator("canvas")).to_be_visible()


def test_plots_mark_events_and_list_them(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/gpu/GPU-0-of-gpu01?range=6h")
    events = page.get_by_role("list", name="Events")
    expect(events.get_by_role("listitem").filter(has_text="bob started python")).to_be_visible()
    expect(page.locator(".marks .line.job")).not_to_have_count(0)
    page.goto(f"{remembered.url}/#/gpu/GPU-0-of-gpu02?range=6h")
    silent = events.get_by_role("listitem").filter(has_text="Silent")
    expect(silent).to_contain_text(re.compile("(29|30|31) min"))
    throttled = events.get_by_role("listitem").filter(has_text="Throttled")
    expect(throttled).to_contain_text(re.compile("(9|10|11) min"))
    expect(page.locator("figure .marks .throttled")).to_have_count(5)
    silent.get_by_role("button").click()
    expect(page.get_by_role("region", name="Past moment")).to_be_visible()


def test_plots_are_compared_with_a_gpu_of_another_node(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/gpu/GPU-1-of-gpu01?range=1h")
    with page.expect_request(re.compile("/history/series/id-of-gpu02")):
        page.get_by_role("combobox", name="Compare with another node").fill("gpu02")
    chosen = page.get_by_role("combobox", name="GPU of gpu02")
    expect(chosen).to_have_value("GPU-1-of-gpu02")
    chosen.select_option("GPU 0")
    expect(page).to_have_url(re.compile("with=GPU-0-of-gpu02$"))
    figure, plot = page.get_by_role("figure").first, page.locator(".u-over").first

    def reads_both() -> bool:
        plot.hover(position={"x": 200, "y": 30})  # again: a plot that is drawn anew has no cursor
        plot.hover(position={"x": 201, "y": 30})
        return "gpu02 GPU 0 90 %" in " ".join(figure.inner_text().split())

    wait_until(reads_both)
    page.get_by_role("button", name="Stop comparing").click()
    expect(page).to_have_url(re.compile("range=1h$"))


def test_a_part_of_a_plot_is_looked_at_more_closely(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/gpu/GPU-0-of-gpu01?range=6h")
    plot = page.locator(".u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 20, steps=3)
    page.mouse.up()
    page.get_by_role("button", name="Reset zoom").click()
    expect(page.get_by_role("button", name="Reset zoom")).to_have_count(0)


def test_what_is_plotted_can_be_saved(remembered: ThreadedHub, page: Page, tmp_path: Path) -> None:
    page.goto(f"{remembered.url}/#/gpu/GPU-0-of-gpu01?range=6h")
    expect(page.locator("figure canvas").first).to_be_visible()
    for name in ("CSV", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        download.value.save_as(tmp_path / name)
    head, *rows = (tmp_path / "CSV").read_text().splitlines()
    assert "GPU 0 busy_percent mean" in head.split(",")
    assert any(",90" in row for row in rows)
    assert (tmp_path / "PNG").read_bytes().startswith(PNG)


def test_people_are_listed_with_their_totals(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/people?range=24h")
    alice = page.get_by_role("row").filter(has_text="alice")
    expect(alice).to_contain_text("4.0")
    expect(alice).to_contain_text("90 %")
    # An hour, less the part of the idle window that was before the hour of the verdict.
    idle = re.compile(r"0\.[89] h|1\.0 h")
    expect(page.get_by_role("row").filter(has_text="bob")).to_contain_text(idle)
    page.get_by_role("button", name="Node", exact=True).click()
    expect(page.get_by_role("row").filter(has_text="gpu02")).to_contain_text("2.5")


def test_people_can_be_listed_for_any_range_of_days(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/people")
    page.get_by_role("button", name="Range…").click()
    first, last = (_day(time.time() - days * DAY) for days in (2, 0))
    page.get_by_label("from").fill(first)
    page.get_by_label("to", exact=True).fill(last)
    expect(page).to_have_url(re.compile(rf"range={first}\.\.{last}$"))
    expect(page.get_by_role("row").filter(has_text="alice")).to_contain_text("4.0")


def test_a_person_has_jobs_and_a_job_has_advice(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/people")
    page.get_by_role("link", name="bob").click()
    expect(page.get_by_role("heading", name="bob", level=1)).to_be_visible()
    page.get_by_role("listitem").get_by_role("link", name="python").click()
    expect(page.get_by_text("never used the GPU")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="gpu01 GPU 0")).to_contain_text("16 GiB")


def test_history_and_job_views_are_accessible(remembered: ThreadedHub, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{remembered.url}/#/history?range=6h&at={_ago(75)}")
    expect(page.get_by_role("region", name="Past moment")).to_contain_text("1 of 2 nodes reporting")
    expect(_blocks(page, "alice").first).to_be_visible()
    assert accessibility_violations(page) == []
    page.goto(f"{remembered.url}/#/person/alice")
    page.get_by_role("listitem").get_by_role("link", name="python").click()
    expect(page.get_by_role("region", name="GPUs", exact=True)).to_be_visible()
    assert accessibility_violations(page) == []


@pytest.mark.parametrize("address", ["history?range=6h&at={}", "?at={}", "people?at={}"])
def test_history_views_fit_a_phone(remembered: ThreadedHub, phone: Page, address: str) -> None:
    phone.goto(f"{remembered.url}/#/{address.format(_ago(75))}")
    expect(phone.get_by_role("region", name="Past moment")).to_contain_text(
        "1 of 2 nodes reporting"
    )
    expect(phone.get_by_text("alice").first).to_be_visible()
    assert fits_viewport(phone)


def test_an_unknown_job_or_user_shows_an_error(remembered: ThreadedHub, page: Page) -> None:
    page.goto(f"{remembered.url}/#/job/0-nothing")
    expect(page.get_by_role("heading", name="Job not found")).to_be_visible()
    page.goto(f"{remembered.url}/#/person/nobody-here")
    expect(page.get_by_role("heading", name="User not found")).to_be_visible()
    expect(page.get_by_text("or has in the last 7 days")).to_be_visible()


def test_the_card_of_a_gpu_shows_its_last_hour_with_one_request_per_node(
    remembered: ThreadedHub, page: Page
) -> None:
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(remembered.url)
    for name in ("gpu01 GPU 0", "gpu01 GPU 1"):
        page.get_by_role("gridcell", name=name).click()
        card = page.get_by_role("dialog", name=name)
        hour = card.get_by_role("img", name=re.compile("^Utilisation, last hour: now"))
        expect(hour).to_be_visible()
    assert len([url for url in urls if "/history/series/" in url]) == 1


def test_a_hub_without_history_shows_a_quiet_message(tmp_path: Path, page: Page) -> None:
    with ThreadedHub(tmp_path, hub__history="off") as hub:
        hub.join_and_report(sample_history.latest_snapshot())
        for view in ("history", "node/id-of-gpu01"):
            page.goto(f"{hub.url}/#/{view}")
            expect(page.get_by_text("hub.history is off")).to_be_visible()
        expect(page.get_by_role("button", name="6 h")).to_have_count(0)
        page.goto(f"{hub.url}/#/people")
        expect(page.get_by_role("row").filter(has_text="bob")).to_be_visible()
        page.goto(f"{hub.url}/#/")
        page.get_by_role("gridcell", name="gpu01 GPU 0").click()
        expect(page.get_by_role("dialog")).to_contain_text("hub.history is off")
