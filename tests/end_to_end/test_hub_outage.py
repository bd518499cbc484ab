"""A hub outage: no report of a pushing agent is lost."""

import random
from functools import partial

from tests.end_to_end.programs import (
    FleetSmiProcess,
    Lab,
    LoopbackHub,
    LoopbackMachine,
    sequence_ranges,
)
from tests.machines import wait_until

SAMPLES_IN_TEN_MINUTES = 100
"""The samples of ten minutes at one per six seconds; here taken every tenth of a second."""


def reporting(node: LoopbackMachine, *flags: str) -> FleetSmiProcess:
    """Start an agent that also drops each sample in a folder, for the test to compare."""
    return node.start_agent(*flags, "--drop", str(node.drop))


def has_received(hub: LoopbackHub, node: LoopbackMachine, taken: int) -> bool:
    """Whether the hub has received that sample of the current agent run."""
    view = hub.node(node.name)
    return view is not None and not view.silent and view.sequence >= taken


def wait_for_all(hub: LoopbackHub, *nodes: LoopbackMachine) -> None:
    """Wait until the hub has received every sample taken so far."""
    for node in nodes:
        wait_until(partial(has_received, hub, node, node.latest_sequence()))
    wait_until(lambda: not any(node.missing_reports for node in hub.fleet().nodes))


def test_no_report_is_lost_in_ten_minutes_without_the_hub(lab: Lab) -> None:
    hub = LoopbackHub(lab)
    stays, restarted = LoopbackMachine(lab, "stays"), LoopbackMachine(lab, "restarted")
    agents = [reporting(node, *hub.join_flags()) for node in (stays, restarted)]
    wait_until(lambda: hub.latest_sequence("stays") > 3 and hub.latest_sequence("restarted") > 3)

    hub.program.kill()
    wait_until(lambda: restarted.latest_sequence() >= SAMPLES_IN_TEN_MINUTES / 2)
    assert agents.pop().terminate()[0] == 0
    taken = restarted.latest_sequence()
    agents.append(reporting(restarted, "--to", hub.url))
    wait_until(lambda: stays.latest_sequence() >= SAMPLES_IN_TEN_MINUTES)
    hub.start()

    wait_for_all(hub, stays, restarted)
    assert hub.program.terminate()[0] == 0
    kept = hub.stored_nodes()
    ((first, last, given_up),) = sequence_ranges(kept["stays"])
    assert (first, given_up) == ([1], 0)
    assert last[0] >= SAMPLES_IN_TEN_MINUTES
    before, after = sequence_ranges(kept["restarted"])
    assert before == ([1], [taken], 0)
    assert (after[0], after[2]) == ([1], 0)


def test_no_report_is_lost_when_the_hub_is_killed_repeatedly(lab: Lab) -> None:
    chance = random.Random(1)  # which moment it is, the machine decides
    hub, node = LoopbackHub(lab), LoopbackMachine(lab, "node")
    reporting(node, *hub.join_flags())
    for _ in range(4):
        wait_until(
            partial(has_received, hub, node, node.latest_sequence() + chance.randrange(1, 9))
        )
        hub.program.kill()
        hub.start()
    wait_for_all(hub, node)
    assert hub.program.terminate()[0] == 0
    ((first, last, given_up),) = sequence_ranges(hub.stored_nodes()["node"])
    assert (first, len(last), given_up) == ([1], 1, 0)
