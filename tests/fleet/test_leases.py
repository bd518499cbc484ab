"""Leases in the live state of the fleet: the state, its holder, and what viewers get of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.leases import list_leases
from fleet_smi.model.privacy import mask_commands, redact_snapshot
from fleet_smi.model.snapshot import Gpu, Lease
from fleet_smi.model.stream_payload_builder import fleet_payload
from fleet_smi.wire.report import decode_report, encode_report, encode_snapshot
from tests.builders import NOON, gpu, instance, process, snapshot
from tests.fleet.fleet_views import fleet_of, only_node

ALICE = Lease(holder="alice", taken_at=NOON - 40, uid=1000, pid=4711, command="python")
LEASED = gpu(lease=ALICE)


def verdicts(*cards: Gpu, every: float = 1.0) -> list[Verdict]:
    """The verdict after each sample."""
    fleet, found = FleetState(), []
    for position, card in enumerate(cards):
        at = NOON + position * every
        fleet.apply(snapshot(card, taken_at=at, sequence=position + 1), at)
        found.append(only_node(fleet, at).gpus[0].verdict)
    return found


def test_a_leased_gpu_says_who_took_it_and_when() -> None:
    (verdict,) = verdicts(LEASED)
    assert (verdict.state, verdict.reason) == ("leased", "taken by alice 40 s ago")
    assert verdict.since == NOON - 40
    noted = gpu(lease=replace(ALICE, note="final run"))
    assert verdicts(noted)[0].reason == "taken by alice 40 s ago: final run"


def test_a_lease_is_seen_and_ends_at_once_however_often() -> None:
    free = gpu()
    states = [each.state for each in verdicts(*([free, LEASED, LEASED] * 5), free)]
    assert states == ["free", "leased", "leased"] * 5 + ["free"]


def test_since_never_moves_back_while_it_is_leased() -> None:
    times = [each.since for each in verdicts(gpu(), LEASED, LEASED, LEASED)]
    assert times == sorted(times)


def test_work_that_is_visible_is_shown_instead_of_the_lease() -> None:
    busy = gpu(lease=ALICE, processes=(process(),), busy_percent=90.0)
    states = [each.state for each in verdicts(LEASED, busy, LEASED, gpu())]
    assert states == ["leased", "busy", "leased", "free"]


def test_the_lease_is_by_the_clock_of_its_node() -> None:
    fleet = FleetState()
    behind = replace(ALICE, taken_at=NOON - 3640)
    fleet.apply(snapshot(gpu(lease=behind), taken_at=NOON - 3600), NOON)
    verdict = only_node(fleet, NOON).gpus[0].verdict
    assert verdict.reason == "taken by alice 40 s ago"


def test_an_instance_is_leased_by_itself() -> None:
    card = gpu(mig_mode=True, instances=(instance(1, lease=ALICE), instance(2)))
    judged = only_node(fleet_of(snapshot(card))).gpus[0]
    assert [each.verdict.state for each in judged.instances] == ["leased", "free"]


def test_the_stream_has_the_holder_without_an_age_that_changes() -> None:
    view = fleet_of(snapshot(LEASED)).view(NOON)
    (node,) = fleet_payload(view, {}).nodes.values()
    assert (node.gpus[0].verdict.state, node.gpus[0].verdict.reason) == ("leased", "taken by alice")


@pytest.mark.parametrize(
    ("field", "text"),
    [("note", "token=hf_abcdefghijklmnopqrstuvwxyz0123456789"), ("command", "x\x1b[2J")],
)
def test_hostile_text_beside_a_lease_is_cleaned(field: str, text: str) -> None:
    texts: dict[str, Any] = {field: text}
    report = encode_report([encode_snapshot(snapshot(gpu(lease=replace(ALICE, **texts))))], NOON)
    (received,) = decode_report(report).snapshots
    lease = received.gpus[0].lease
    assert lease is not None
    assert text not in (lease.note, lease.command)


def test_the_program_of_a_lease_is_hidden_where_names_are() -> None:
    hidden = mask_commands(snapshot(LEASED), "hidden").gpus[0].lease
    assert hidden is not None and (hidden.command, hidden.holder) == (None, "alice")
    assert mask_commands(snapshot(LEASED), "name").gpus[0].lease == ALICE
    assert redact_snapshot(snapshot(LEASED)).gpus[0].lease == ALICE


def test_who_uses_a_leased_gpu_without_the_lease_is_named() -> None:
    both = (process(1, "alice", uid=1000), process(2, "bob", uid=1001))
    busy = gpu(lease=ALICE, processes=both, busy_percent=90.0)
    verdict = only_node(fleet_of(snapshot(busy))).gpus[0].verdict
    assert "bob without lease" in [note.words for note in verdict.notes]
    # In a container a process is often root's, whoever started it.
    inside = replace(busy, processes=(process(1, "root", uid=0, container="c0ffee"),))
    verdict = only_node(fleet_of(snapshot(inside))).gpus[0].verdict
    assert "without_lease" not in [note.kind for note in verdict.notes]


def test_leases_are_listed_with_those_who_have_none() -> None:
    bob = gpu(1, processes=(process(2, "bob"),), busy_percent=90.0)
    view = fleet_of(snapshot(gpu(0, lease=ALICE), bob, gpu(2))).view(NOON)
    listed = [(row.uuid, row.holder, row.lease) for row in list_leases(view)]
    assert listed == [(gpu(0).uuid, "alice", ALICE), (bob.uuid, "bob", None)]
