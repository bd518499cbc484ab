"""The history of a time matches what the live view showed then."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.history import Period
from fleet_smi.model.people import node_holdings
from tests.hub.history.in_memory_history import RecordedFleet
from tests.hub.history.scripted_reports import START, UUIDS, ScriptedReport, pairs, to_snapshot

NODE = "id-of-gpu01"
PACE = 60.0
Shown = dict[str, tuple[str, frozenset[str]]]
# Two ways to one node may tell two samples of one moment.
AFTER = st.sampled_from([0.0, 1.0, 30.0, 60.0, 60.0, 60.0, 60.0, 110.0, 170.0, 200.0, 4000.0])
PEOPLE = st.sampled_from([(), (1,), (1,), (1,), (1, 2), (2,)])
PERCENT = st.sampled_from([0.0, 0.0, 0.0, 90.0])
REPORTS = st.lists(
    st.builds(
        ScriptedReport,
        delay_seconds=AFTER,
        pids=pairs(PEOPLE),
        busy=pairs(PERCENT),
        watts=pairs(st.just(70.0)),
    ),
    min_size=1,
    max_size=40,
)
# After this report the hub is killed.
KILLED = st.integers(0, 40)


def shown_by(view: NodeView) -> Shown:
    """The state of each GPU, and who holds it."""
    users: dict[str, set[str]] = {gpu.uuid: set() for gpu in view.gpus}
    for one in node_holdings(view):
        users[one.gpu.uuid].add(one.user)
    return {gpu.uuid: (gpu.verdict.state, frozenset(users[gpu.uuid])) for gpu in view.gpus}


def kept_of(watched: RecordedFleet, at: float) -> Shown:
    """The same, as it is kept."""
    going_on = watched.history.open_batch()
    shown: Shown = {}
    for uuid in UUIDS:
        mine = [one for place, one in going_on.periods if place == (NODE, uuid)]
        periods = {one.start: one for one in [*watched.stored.periods(uuid), *mine]}
        (found,) = [one for one in periods.values() if _covers(one, at)]
        taken = found.state in ("busy", "held", "ghost")
        users = frozenset(one.user for one in found.holders) if taken else frozenset()
        shown[uuid] = found.state, users
    return shown


def _covers(period: Period, at: float) -> bool:
    return period.start <= at and (period.end is None or at < period.end)


@settings(max_examples=60)
@given(REPORTS, KILLED)
def test_the_history_of_a_time_is_what_was_shown_then(
    reports: list[ScriptedReport], killed: int
) -> None:
    watched, at = RecordedFleet(), START
    shown: dict[float, Shown] = {}
    for number, one in enumerate(reports, 1):
        at += one.delay_seconds
        watched.take(replace(to_snapshot(one, number), interval_seconds=PACE), at)
        view = watched.fleet.node(NODE, at)
        assert view is not None
        shown[at] = shown_by(view)
        watched.history.tick(at)
        if number == killed:
            watched.history.schedule_save([NODE])
            watched.history.flush()
            watched = watched.restart()
    watched.history.schedule_save([NODE])
    watched.history.flush()
    assert {moment: kept_of(watched, moment) for moment in shown} == shown
