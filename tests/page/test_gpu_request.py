"""The card "I need a GPU": the hub's selection, and commands to copy."""

import re
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def need(lab: ThreadedHub, page: Page) -> Locator:
    """The card "I need a GPU"."""
    page.goto(lab.url)
    return page.get_by_role("region", name="I need a GPU")


def _offered(hub: ThreadedHub, query: str) -> list[dict[str, Any]]:
    response = hub.request("GET", f"/api/v1/free?{query}")
    offered: list[dict[str, Any]] = msgspec.json.decode(response.body)["offered"]
    return offered


def _copied(page: Page, need: Locator, what: str) -> str:
    """Return the clipboard once the button confirms the copy."""
    button = need.get_by_role("button", name=re.compile(f"{what}$"))
    button.click()
    expect(button).to_contain_text("Copied")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_the_answer_is_that_of_the_hub(lab: ThreadedHub, need: Locator) -> None:
    [best] = _offered(lab, "n=1&same_node=true")
    expect(need).to_contain_text(f"{best['node']}: GPU {best['index']}")


def test_count_memory_and_same_node_are_part_of_the_request(
    lab: ThreadedHub, need: Locator
) -> None:
    need.get_by_role("button", name="More GPUs").click()
    need.get_by_role("button", name="40 GB").click()
    best = _offered(lab, "n=2&min_free=40GiB&same_node=true")
    assert {one["node"] for one in best} == {"gpu02"}
    expect(need).to_contain_text("gpu02: GPU 0 and 1")
    expect(need).to_contain_text("2 × A100-SXM4-40GB")


def test_the_answer_to_another_request_cannot_be_used(need: Locator, page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    expect(need).to_contain_text("1 of 1 requested")
    page.route("**/api/v1/free?n=2&*", hold)
    with page.expect_request("**/api/v1/free?n=2&*"):
        need.get_by_role("button", name="More GPUs").click()
    answer = need.locator("[inert]")
    expect(answer).to_contain_text("1 of 1 requested")
    expect(answer).to_have_attribute("aria-busy", "true")
    held[0].continue_()
    expect(need).to_contain_text("2 of 2 requested")
    expect(answer).to_have_count(0)


def test_several_nodes_are_offered_if_one_has_too_few(need: Locator) -> None:
    for _ in range(2):
        need.get_by_role("button", name="More GPUs").click()
    expect(need).to_contain_text("No node has 3 free GPUs: 2 of 3 are on gpu02; 1 MIG instance")
    need.get_by_role("button", name="Use several nodes").click()
    expect(need.get_by_label("Same node")).not_to_be_checked()
    expect(need).to_contain_text("3 of 3 requested: 2 on gpu02, 1 on gpu01; not on one node.")
    expect(need).to_contain_text("gpu02: GPU 0 and 1")
    expect(need).to_contain_text("gpu01: GPU")


def test_an_impossible_request_shows_the_hub_s_reason(lab: ThreadedHub, need: Locator) -> None:
    for _ in range(3):
        need.get_by_role("button", name="More GPUs").click()
    response = lab.request("GET", "/api/v1/free?n=4&same_node=true")
    reason = msgspec.json.decode(response.body)["unmet"]
    expect(need).to_contain_text(f"Not free now N{reason[1:]}.")


def test_the_model_can_be_chosen_and_a_mig_instance_too(need: Locator, page: Page) -> None:
    model = need.get_by_label("Model")
    options = model.get_by_role("option").all_inner_texts()
    assert options[0] == "any model"
    assert "A100-SXM4-40GB" in options
    model.select_option(label="A100-SXM4-40GB")
    expect(need).to_contain_text("1 of 1 requested: on gpu02.")
    model.select_option(label="H100 80GB HBM3, MIG 2g.20gb")
    expect(need).to_contain_text("1 of 1 requested: on gpu01.")
    expect(need).to_contain_text("gpu01: GPU 3:1")
    assert "CUDA_VISIBLE_DEVICES=MIG-" in _copied(page, need, "environment variable")


def test_each_command_can_be_copied_with_a_confirmation(
    lab: ThreadedHub, need: Locator, page: Page
) -> None:
    need.get_by_role("button", name="80 GB").click()
    expect(need).to_contain_text("gpu01: GPU 0")
    assert _copied(page, need, "ssh command") == "ssh gpu01"
    assert "CUDA_VISIBLE_DEVICES=0" in _copied(page, need, "environment variable")
    assert _copied(page, need, "run command") == (
        "fleet-smi run -n 1 --min-free 80GiB -- ./train.sh"
    )
