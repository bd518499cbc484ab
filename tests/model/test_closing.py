"""Closings: what they cover, how they are said, and what becomes of a verdict under one."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from fleet_smi.model.closing import Closing, apply_closings, close_device, describe_closing
from fleet_smi.model.fleet import NodeView, State, Verdict
from fleet_smi.model.policies import POLICIES, is_offered
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.views import NodeParts
from tests.builders import gpu, instance

WEDNESDAY = datetime(2026, 11, 18, 9, 30, tzinfo=UTC).timestamp()
DAY = 86_400.0
OF_NODE = Closing(id="1", node_id="n", note="new fan", by="maria", created_at=WEDNESDAY - 60)


def said(until: datetime | None, note: str = "new fan") -> str:
    closing = replace(OF_NODE, until=None if until is None else until.timestamp(), note=note)
    return describe_closing(closing, WEDNESDAY, UTC)


@pytest.mark.parametrize(
    "until, expected",
    [
        (None, "closed by maria: new fan"),
        (datetime(2026, 11, 20, tzinfo=UTC), "closed by maria until Friday: new fan"),
        (datetime(2026, 11, 20, 18, tzinfo=UTC), "closed by maria until Friday 18:00: new fan"),
        (datetime(2026, 11, 18, 14, 5, tzinfo=UTC), "closed by maria until 14:05: new fan"),
        (datetime(2026, 12, 1, tzinfo=UTC), "closed by maria until 2026-12-01: new fan"),
        (datetime(2026, 11, 25, tzinfo=UTC), "closed by maria until 2026-11-25: new fan"),
    ],
)
def test_it_says_who_until_when_and_why(until: datetime | None, expected: str) -> None:
    assert said(until) == expected


def test_without_a_note_nothing_follows() -> None:
    assert said(None, "") == "closed by maria"


def verdict(state: State) -> Verdict:
    return Verdict(state=state, reason="as it was", since=WEDNESDAY - DAY)


def parts(*cards: Gpu, state: State = "free") -> NodeParts:
    uuids = [card.uuid for card in cards] + [each.uuid for card in cards for each in card.instances]
    return NodeParts(
        node=NodeView(node_id="n", name="n", taken_at=None, age_seconds=None),
        gpus=tuple((card, verdict(state)) for card in cards),
        verdicts={uuid: verdict(state) for uuid in uuids},
    )


def states(closed: NodeParts) -> list[State]:
    return [each.state for _, each in closed.gpus]


def test_a_free_gpu_is_leased_and_since_the_closing() -> None:
    closed = close_device(verdict("free"), OF_NODE, WEDNESDAY)
    assert (closed.state, closed.since) == ("leased", WEDNESDAY - 60)
    # By a clock that was set back it does not lie in the future.
    assert close_device(verdict("free"), OF_NODE, WEDNESDAY - 3600).since <= WEDNESDAY - 3600


@pytest.mark.parametrize("state", ["busy", "held", "ghost", "broken", "unknown", "leased"])
def test_any_other_state_stays_with_a_note_and_no_policy_offers_it(state: State) -> None:
    closed = close_device(verdict(state), OF_NODE, WEDNESDAY)
    assert (closed.state, closed.reason, closed.since) == (state, "as it was", WEDNESDAY - DAY)
    (note,) = closed.notes
    assert (note.kind, note.words) == ("closed", "closed by maria: new fan")
    for policy in POLICIES:
        assert not is_offered(gpu(), closed, policy, 100.0, DEFAULT_THRESHOLDS)


def test_one_gpu_is_closed_with_its_instances_or_one_instance_alone() -> None:
    mig = gpu(1, mig_mode=True, instances=(instance(1), instance(2)))
    one = replace(OF_NODE, uuid=mig.uuid)
    closed = apply_closings(parts(gpu(0), mig), [one], WEDNESDAY)
    assert states(closed) == ["free", "leased"]
    assert {closed.verdicts[part.uuid].state for part in mig.instances} == {"leased"}
    part = replace(OF_NODE, uuid=mig.instances[1].uuid)
    closed = apply_closings(parts(gpu(0), mig), [part], WEDNESDAY)
    assert states(closed) == ["free", "free"]
    assert [closed.verdicts[part.uuid].state for part in mig.instances] == ["free", "leased"]


def test_a_closing_that_is_over_changes_nothing_and_the_longest_is_named() -> None:
    over = replace(OF_NODE, until=WEDNESDAY)
    assert apply_closings(parts(gpu(0)), [over], WEDNESDAY) == parts(gpu(0))
    short = replace(OF_NODE, by="bob", until=WEDNESDAY + 60)
    for both in ([short, OF_NODE], [OF_NODE, short]):
        ((_, closed),) = apply_closings(parts(gpu(0)), both, WEDNESDAY).gpus
        assert closed.reason == "closed by maria: new fan"


def test_a_label_covers_every_node_that_has_it() -> None:
    rack = Closing(id="1", label="rack=3", by="maria", created_at=0.0)
    assert rack.covers("any", {"rack": "3", "a": "b"})
    assert not rack.covers("any", {"rack": "33"})
    assert not rack.covers("any", {})
    assert OF_NODE.covers("n", {})
    assert not OF_NODE.covers("m", {"rack": "3"})
