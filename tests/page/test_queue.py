"""Leases and the calendar of reservations: seen by all, booked and changed by their owner."""

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from fleet_smi.model.reservation import Reservation
from fleet_smi.model.snapshot import Lease
from tests.builders import HOUR, gpu, process
from tests.page.accounts import VIEWER, add_accounts, sign_in
from tests.page.page_pool import NewPage
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def booked(tmp_path: Path) -> Iterator[ThreadedHub]:
    """A hub with a node that maria has booked half of, for six hours from now."""
    with ThreadedHub(tmp_path / "hub") as hub:
        now = time.time()
        lease = Lease(holder="lena", taken_at=now - 240, command="python", note="sweep")
        cards = [gpu(0, processes=(process(8, "lucas", busy_percent=97.0),)), gpu(1, lease=lease)]
        cards += [gpu(index) for index in range(2, 8)]
        hub.join_and_report(snapshot_now("gpu03", *cards, interval_seconds=600.0))
        other = [gpu(index, uuid=f"GPU-b{index}") for index in range(4)]
        hub.join_and_report(snapshot_now("gpu04", *other, interval_seconds=600.0))
        add_accounts(hub)
        hub.server.reservations.add(
            Reservation(
                id="",
                owner="maria",
                node_id="id-of-gpu03",
                node="gpu03",
                gpus=4,
                starts_at=now,
                ends_at=now + 6 * HOUR,
                note="paper rerun",
            ),
            8,
            force=False,
        )
        yield hub


def listed(hub: ThreadedHub) -> list[dict[str, object]]:
    found: list[dict[str, object]] = msgspec.json.decode(
        hub.request("GET", "/api/v1/reservations").body
    )["reservations"]
    return found


def field_time(hours: float) -> str:
    return f"{datetime.now().astimezone() + timedelta(hours=hours):%Y-%m-%dT%H:00}"


def test_everybody_sees_leases_and_bookings_and_can_ask(booked: ThreadedHub, page: Page) -> None:
    page.goto(f"{booked.url}/#/queue")
    expect(page.get_by_text("gpu03:1 · python · sweep")).to_be_visible()
    expect(page.get_by_role("link", name="Sign in to reserve")).to_be_visible()
    page.get_by_role("button", name=re.compile("^maria: 4 GPUs of gpu03")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("paper rerun")
    expect(dialog.get_by_role("button", name="message to maria")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_kept_gpu_says_for_whom_in_the_grid(booked: ThreadedHub, page: Page) -> None:
    page.goto(booked.url)
    expect(page.get_by_text("for maria")).to_have_count(4)


def test_a_booking_is_made_changed_and_cancelled_by_keyboard(
    booked: ThreadedHub, page: Page
) -> None:
    sign_in(page, booked, VIEWER)
    page.goto(f"{booked.url}/#/queue")
    page.get_by_role("button", name="Reserve").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Node").fill("gpu04")
    dialog.get_by_label("GPUs").fill("2")
    dialog.get_by_label("Note").fill("<b>ablations</b>")
    dialog.get_by_role("button", name="Book", exact=True).press("Enter")
    expect(dialog).to_have_count(0)
    section = page.locator("section").filter(has_text="Your reservations")
    own = section.get_by_role("listitem").filter(has_text="<b>ablations</b>")
    expect(own).to_be_visible()
    own.get_by_role("button", name="Edit").press("Enter")
    dialog.get_by_label("GPUs").fill("3")
    dialog.get_by_role("button", name="Save").press("Enter")
    expect(own).to_contain_text("3 GPUs")
    assert [one["owner"] for one in listed(booked)] == ["maria", VIEWER]
    own.get_by_role("button", name="Cancel").press("Enter")
    own.get_by_role("button", name="Cancel it").press("Enter")
    expect(own).to_have_count(0)
    assert [one["owner"] for one in listed(booked)] == ["maria"]


def test_the_queue_says_who_waits_and_why_and_ones_own_place_can_be_left(
    booked: ThreadedHub, page: Page
) -> None:
    sign_in(page, booked, VIEWER)
    headers = {"Origin": booked.url}
    path = f"{booked.url}/api/v1/queue"
    joined = page.request.post(path, data={"n": 8, "keep_seconds": 600}, headers=headers)
    assert joined.ok, joined.text()
    page.goto(f"{booked.url}/#/queue")
    row = page.get_by_role("row").filter(has_text=VIEWER)
    expect(row).to_contain_text("8 × any")
    expect(page.get_by_text("1 person waits for 8 GPUs")).to_be_visible()
    row.get_by_role("button", name="Leave").click()
    expect(page.get_by_text("Nobody is waiting.")).to_be_visible()


def test_conflicts_are_shown_with_what_would_fit(booked: ThreadedHub, page: Page) -> None:
    sign_in(page, booked, VIEWER)
    page.goto(f"{booked.url}/#/queue")
    page.get_by_role("button", name="Reserve").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Node").fill("gpu03")
    dialog.get_by_label("GPUs").fill("6")
    dialog.get_by_label("From").fill(field_time(1))
    dialog.get_by_label("Until").fill(field_time(3))
    expect(dialog.get_by_text("maria booked 4 of 8 GPUs")).to_be_visible()
    expect(dialog.get_by_role("button", name="Book anyway")).to_be_visible()
    expect(dialog.get_by_role("button", name=re.compile("^Start "))).to_be_visible()
    dialog.get_by_role("button", name="Use 4 GPUs").click()
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog).to_have_count(0)
    assert [one["gpus"] for one in listed(booked)] == [4, 4]


def test_a_drag_over_the_calendar_chooses_the_time(booked: ThreadedHub, page: Page) -> None:
    sign_in(page, booked, VIEWER)
    page.goto(f"{booked.url}/#/queue")
    page.get_by_role("button", name="Later").click()
    row = page.get_by_role("listitem").filter(has_text="gpu04").locator(".lanes")
    box = row.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Node")).to_have_value("gpu04")
    dialog.get_by_role("button", name="Book", exact=True).click()
    bar = page.get_by_role("button", name=re.compile(f"^{VIEWER}: 1 GPU of gpu04"))
    expect(bar).to_be_visible()


def add_booking(hub: ThreadedHub, owner: str) -> float:
    """Book a GPU of gpu04 for six hours from noon of the day after tomorrow; return the start."""
    noon = datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0)
    start = (noon + timedelta(days=2)).timestamp()
    booking = Reservation(
        id="",
        owner=owner,
        node_id="id-of-gpu04",
        node="gpu04",
        gpus=1,
        starts_at=start,
        ends_at=start + 6 * HOUR,
    )
    hub.server.reservations.add(booking, 4, force=False)
    return start


def saved_times(hub: ThreadedHub, owner: str) -> tuple[object, object]:
    (one,) = [one for one in listed(hub) if one["owner"] == owner]
    return one["starts_at"], one["ends_at"]


def test_ones_own_bar_is_moved_and_resized_by_pointer_and_by_keys(
    booked: ThreadedHub, page: Page
) -> None:
    start = add_booking(booked, VIEWER)
    sign_in(page, booked, VIEWER)
    page.goto(f"{booked.url}/#/queue")
    page.get_by_role("button", name="2 weeks").click()
    bar = page.get_by_role("button", name=re.compile(f"^{VIEWER}: 1 GPU of gpu04"))
    save = page.get_by_role("dialog").get_by_role("button", name="Save")
    box = bar.bounding_box()
    lanes = page.get_by_role("listitem").filter(has_text="gpu04").locator(".lanes").bounding_box()
    assert box is not None and lanes is not None
    day = lanes["width"] / 14
    # A drag by a day moves it, and the form shows the times before they are saved.
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + day, box["y"] + 8, steps=5)
    expect(page.get_by_role("status").filter(has_text="12:00")).to_be_visible()
    page.mouse.up()
    save.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    moved = datetime.fromtimestamp(start).astimezone() + timedelta(days=1)
    assert saved_times(booked, VIEWER) == (moved.timestamp(), moved.timestamp() + 6 * HOUR)
    # With the keyboard: three hours earlier, and the end three hours later than that.
    bar.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    save.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    began = moved.timestamp() - 3 * HOUR
    assert saved_times(booked, VIEWER) == (began, began + 9 * HOUR)
    # Nobody else's: a drag of it opens it.
    other = page.get_by_role("button", name=re.compile("^maria: 4 GPUs"))
    other.press("ArrowRight")
    other.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("paper rerun")


def test_times_in_which_a_node_is_closed_are_hatched(booked: ThreadedHub, page: Page) -> None:
    closing = {"node_id": "id-of-gpu04", "note": "new fan", "until": time.time() + 30 * HOUR}
    admin = booked.token("admin", person="maria")
    assert booked.request_json("POST", "/api/v1/closings", closing, token=admin).status == 200
    page.goto(f"{booked.url}/#/queue")
    rows = page.get_by_role("listitem")
    expect(rows.filter(has_text="gpu04").locator(".closed.whole")).to_have_count(1)
    expect(rows.filter(has_text="gpu03").locator(".lanes .closed")).to_have_count(0)
    expect(page.get_by_text("closed", exact=True)).to_be_visible()


def test_it_works_on_a_phone(booked: ThreadedHub, new_page: NewPage) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    sign_in(page, booked, VIEWER)
    page.goto(f"{booked.url}/#/queue")
    expect(page.get_by_role("button", name="Reserve")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^maria: 4 GPUs"))).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Reserve").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Book")).to_be_in_viewport()


def test_who_needs_a_gpu_queues_from_the_card_and_takes_the_offer(
    booked: ThreadedHub, page: Page
) -> None:
    sign_in(page, booked, VIEWER)
    need = page.get_by_role("region", name="I need a GPU")
    for _ in range(6):
        need.get_by_role("button", name="More GPUs").click()
    need.get_by_role("button", name="Queue me").click()
    expect(need.get_by_text("You are number 1 in the queue.")).to_be_visible()
    # The rest of the node becomes free.
    cards = [gpu(index) for index in range(8)]
    token = booked.join("id-of-gpu05", "gpu05")
    fresh = [replace(card, uuid=f"GPU-c{card.index}") for card in cards]
    assert booked.report(snapshot_now("gpu05", *fresh), token=token).status == 200
    need.get_by_role("button", name="Take it").click()
    expect(need.get_by_text("ssh gpu05").last).to_be_visible()
    expect(need.get_by_text("Yours now.")).to_be_visible()
