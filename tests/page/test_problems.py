"""Problems of the hub, refused machines and clones on the page, each with its remedy."""

from playwright.sync_api import Page, expect

from fleet_smi.model.snapshot import Host
from tests.builders import gpu
from tests.machines import wait_until
from tests.server.routes.responses import get_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def test_a_hub_without_problems_has_no_banner(hub: ThreadedHub, page: Page) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0), interval_seconds=60.0))
    with page.expect_response("**/api/v1/problems"):
        page.goto(hub.url)
    expect(page.get_by_role("rowheader", name="gpu01")).to_be_visible()
    expect(page.get_by_role("region", name="Problems of the hub")).to_have_count(0)


def test_problems_and_refused_machines_have_cause_and_remedy(hub: ThreadedHub, page: Page) -> None:
    hub.report(snapshot_now("gpu07", gpu(0)), token="fsmi_node_unknown")
    hub.server.problems._errors["history"] = lambda: "database or disk is full"
    wait_until(lambda: bool(get_json(hub, "/api/v1/problems")["problems"]))
    page.goto(hub.url)
    banner = page.get_by_role("region", name="Problems of the hub")
    expect(banner).to_contain_text("The history cannot be written")
    expect(banner).to_contain_text("database or disk is full")
    expect(banner).to_contain_text("Free space on its disk")
    banner.get_by_text("1 machine is refused").click()
    entry = banner.get_by_role("listitem")
    expect(entry).to_contain_text("127.0.0.1")
    expect(entry).to_contain_text("This hub does not know its credential.")
    expect(entry).to_contain_text("fleet-smi hub join-command")


def test_clones_are_marked_and_their_page_has_the_remedy(hub: ThreadedHub, page: Page) -> None:
    token = hub.join("id-of-gpu01", "gpu01")
    for sequence in (1, 2, 3):
        for name, address in (("gpu01", "10.0.0.1"), ("gpu02", "10.0.0.2")):
            shot = snapshot_now(
                name,
                gpu(0, uuid=f"GPU-{name}"),
                node_id="id-of-gpu01",
                boot_id=f"boot-of-{name}",
                run_id=f"run-of-{name}",
                sequence=sequence,
                interval_seconds=60.0,
                host=Host(addresses=(address,), booted_at=1_700_000_000.0),
            )
            assert hub.report(shot, token=token).status == 200
    page.goto(hub.url)
    for name in ("gpu01", "gpu02"):
        expect(page.get_by_role("rowheader", name=f"{name}! has a problem")).to_be_visible()
    page.get_by_role("link", name="gpu02").first.click()
    warnings = page.get_by_role("list", name="Warnings")
    expect(warnings).to_contain_text("has the same machine-id as gpu01 (10.0.0.1)")
    expect(warnings).to_contain_text("systemd-machine-id-setup")


def test_the_ssh_command_has_the_address_of_a_renamed_node(hub: ThreadedHub, page: Page) -> None:
    host = Host(addresses=("10.0.0.7",))
    hub.join_and_report(snapshot_now("gpu07", gpu(0), interval_seconds=60.0, host=host))
    rename = {"name": "the big one"}
    admin = hub.token("admin")
    path = "/api/v1/nodes/id-of-gpu07"
    assert hub.request_json("PATCH", path, rename, token=admin).status == 204
    page.goto(hub.url)
    need = page.get_by_role("region", name="I need a GPU")
    expect(need).to_contain_text("the big one: GPU 0")
    expect(need).to_contain_text("ssh 10.0.0.7")
