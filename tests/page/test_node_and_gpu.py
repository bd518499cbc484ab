"""The node page and the GPU page: facts, the last hour, the processes."""

import re
import time

from playwright.sync_api import Locator, Page, expect

from tests.builders import MINUTE, gpu, instance, process, snapshot
from tests.page.accounts import ADMIN, VIEWER, add_accounts, sign_in
from tests.page.sample_fleet import COMMAND
from tests.server.threaded_hub import ThreadedHub


def _fact(page: Page, name: str) -> Locator:
    """Return the value of the fact with this label."""
    return page.locator("dl.facts > div").filter(has=page.get_by_text(name, exact=True))


def test_a_node_page_shows_its_facts(lab: ThreadedHub, page: Page) -> None:
    page.goto(lab.url)
    page.get_by_role("grid").get_by_role("link", name="gpu01").click()
    expect(page.get_by_role("heading", name="gpu01", level=1)).to_be_visible()
    facts = {
        "Model": "4 × H100 80GB HBM3",
        "Driver": "570.172.08",
        "CPU": "31 % of 64 cores",
        "Labels": "rack a",
        "Collectors": "1 ok",
    }
    for name, text in facts.items():
        expect(_fact(page, name)).to_contain_text(text)


def test_a_node_has_its_last_hour_as_plots_and_who_had_it(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu01")
    for title in ("Utilisation", "Memory", "Power", "Temperature", "CPU", "Host memory"):
        figure = page.get_by_role("figure").filter(has=page.get_by_text(title, exact=True))
        expect(figure.locator("canvas")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^GPU 2: bob, "))).not_to_have_count(0)


def test_a_node_lists_its_processes_and_how_it_was_read(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu01")
    processes = page.get_by_role("region", name="Processes")
    for user, memory in {"alice": "16 GiB", "bob": "16 GiB", "carol": "4 GiB"}.items():
        expect(processes.get_by_role("row").filter(has_text=user)).to_contain_text(memory)
    expect(page.get_by_role("listitem").filter(has_text="nvidia")).to_contain_text("ok in 4.0 ms")


def test_another_gpu_of_a_node_is_chosen_by_a_click(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu01")
    chosen = page.get_by_role("group", name="Select a GPU")
    expect(chosen.get_by_role("button", pressed=True)).to_have_accessible_name(
        re.compile("GPU 2, held")
    )
    chosen.get_by_role("button", name="gpu01 GPU 1").click()
    expect(page.get_by_text("GPU 1: Used by alice.")).to_be_visible()
    page.get_by_role("link", name="GPU 1 details").click()
    expect(page.get_by_role("heading", name="gpu01 GPU 1", level=1)).to_be_visible()


def test_a_gpu_page_shows_facts_users_and_the_last_hour(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/gpu/GPU-of-alice")
    facts = {"Memory": "16 / 80 GiB", "Power": "512 / 700 W", "Temperature": "33 °C"}
    for name, text in facts.items():
        expect(_fact(page, name)).to_contain_text(text)
    expect(page.get_by_text("Users: alice.")).to_be_visible()
    expect(page.get_by_role("figure").locator("canvas")).to_have_count(5)


def test_a_mig_gpu_page_shows_each_instance(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/gpu/GPU-in-parts")
    expect(page.get_by_role("listitem").filter(has_text="1g.10gb, busy")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="2g.20gb, free")).to_be_visible()


def test_plots_of_a_mig_gpu_mark_the_jobs_of_its_instances(hub: ThreadedHub, page: Page) -> None:
    now = time.time()
    shots = []
    for ago in range(30, -1, -1):
        jobs = (process(4714, "carol", started_at=now - 10 * MINUTE),) if ago <= 10 else ()
        parts = (instance(1, processes=jobs), instance(2, profile="2g.20gb"))
        card = gpu(0, uuid="GPU-in-parts", mig_mode=True, instances=parts)
        at = now - ago * MINUTE
        shots.append(snapshot(card, taken_at=at, sequence=30 - ago, interval_seconds=60.0))
    hub.report(*shots, token=hub.join("id-of-gpu01", "gpu01"))
    page.goto(f"{hub.url}/#/gpu/GPU-in-parts?range=1h")
    started = page.get_by_role("list", name="Events").get_by_role("listitem")
    expect(started.filter(has_text="carol started python on MIG 1g.10gb")).to_have_count(1)
    expect(page.locator(".marks .line.job")).to_have_count(5)


def test_the_command_line_of_a_process_is_for_admins(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/gpu/GPU-of-alice")
    row = page.get_by_role("row").filter(has_text="alice")
    expect(row).to_contain_text("python")
    expect(row).not_to_contain_text("train.py")
    sign_in(page, lab, ADMIN)
    page.goto(f"{lab.url}/#/gpu/GPU-of-alice")
    expect(row).to_contain_text(COMMAND)


def test_a_node_without_a_gpu_has_a_page_too(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-cpu01")
    expect(_fact(page, "Model")).to_contain_text("no GPU")
    expect(page.get_by_role("term").filter(has_text="Host memory")).to_be_visible()


def test_a_node_page_shows_the_instances_of_a_mig_gpu(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu01")
    parts = page.get_by_role("button", name=re.compile("GPU 3, busy, carol.*MIG 2g.20gb, free"))
    expect(parts.locator(".glyph")).to_have_count(2)
    parts.click()
    expect(page.get_by_text("1 of 2 instances free; carol")).to_be_visible()
    expect(page.get_by_text("Not reported under MIG; other GPUs in grey")).to_be_visible()


def test_a_silent_node_keeps_its_page_and_says_so(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/id-of-gpu04")
    expect(_fact(page, "Last report")).to_contain_text("silent")
    expect(page.get_by_role("button", name="gpu04 GPU 0, unknown")).to_contain_text("was free")
    expect(page.get_by_text(re.compile("^GPU 0: Unknown. Silent for"))).to_be_visible()


def test_a_missing_page_is_an_error_with_a_link_back(lab: ThreadedHub, page: Page) -> None:
    page.goto(f"{lab.url}/#/node/nowhere")
    expect(page.get_by_role("heading", name="Node not found")).to_be_visible()
    page.goto(f"{lab.url}/#/gpu/GPU-nowhere")
    expect(page.get_by_role("heading", name="GPU not found")).to_be_visible()
    page.get_by_role("link", name="Back to the fleet").click()
    expect(page.get_by_role("grid")).to_be_visible()


def test_an_admin_closes_a_gpu_to_new_work_and_opens_it_again(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot(gpu(0), gpu(1), interval_seconds=60.0))
    add_accounts(hub)
    sign_in(page, hub, VIEWER)
    page.get_by_role("grid").get_by_role("link", name="gpu01").click()
    expect(page.get_by_role("heading", name="Collectors")).to_be_visible()
    expect(page.get_by_role("button", name="Close to new work")).to_have_count(0)
    sign_in(page, hub, ADMIN)
    page.get_by_role("grid").get_by_role("link", name="gpu01").click()
    page.get_by_label("What to close").select_option("GPU 1")
    page.get_by_label("Until").fill("2036-05-01T18:00")
    page.get_by_label("Note").fill("new <b>fan</b>")
    page.get_by_role("button", name="Close to new work").click()
    closed = page.get_by_role("listitem").filter(has_text="GPU 1 closed")
    expect(closed).to_contain_text("by ada until 2036-05-01 18:00: new <b>fan</b>")
    states = page.get_by_role("group", name="Select a GPU")
    expect(states.get_by_role("button", name=re.compile("GPU 1, leased"))).to_be_visible()
    closed.get_by_role("button", name="Open GPU 1").click()
    expect(closed).to_have_count(0)
    expect(states.get_by_role("button", name=re.compile("GPU 1, free"))).to_be_visible()
    page.get_by_label("Until").fill("2020-05-01T18:00")
    page.get_by_role("button", name="Close to new work").click()
    expect(page.get_by_role("alert")).to_have_text("The end of the closing is in the past.")
