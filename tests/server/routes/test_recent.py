"""`GET /api/v1/nodes/{node_id}/recent`: the last hour of a node, as a page asks for it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.hub.recent import Hour
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu
from tests.server.hubs import RunningHub, error_of
from tests.server.routes.nodes_of import now

NODE = "/api/v1/nodes/id-of-gpu01"
RECENT = f"{NODE}/recent"
UUID = "GPU-00000000"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    with RunningHub(tmp_path) as running:
        yield running


def hour_of(hub: RunningHub, path: str = RECENT) -> Hour:
    answer = hub.ask("GET", path)
    assert answer.status == 200, answer
    return msgspec.json.decode(answer.body, type=Hour)


def known(figures: list[float | None]) -> list[float]:
    return [figure for figure in figures if figure is not None]


def reported(sequence: int, percent: float, before_seconds: float) -> Snapshot:
    taken = now("gpu01", gpu(0, busy_percent=percent), run_id="run-1", sequence=sequence)
    return replace(taken, taken_at=taken.taken_at - before_seconds)


def test_what_was_reported_is_told_with_the_state_of_each_moment(hub: RunningHub) -> None:
    hub.add(now("gpu01", gpu(0, busy_percent=37.0)))
    hour = hour_of(hub)
    assert (hour.grain_seconds, len(hour.node.cpu_percent)) == (10, 360)
    assert known(hour.gpus[UUID].busy_percent) == [37.0]
    assert [state for state in hour.gpus[UUID].state if state] == ["free"]


def test_reports_that_were_kept_back_land_where_they_belong(hub: RunningHub) -> None:
    token = hub.add(reported(3, 30.0, 0.0))
    late = (reported(1, 10.0, 600.0), reported(2, 20.0, 300.0))
    hub.report(*late, token=token, sent_at=late[0].taken_at + 600.0)
    figures = hour_of(hub).gpus[UUID].busy_percent
    assert list(dict.fromkeys(known(figures))) == [10.0, 20.0, 30.0]
    assert 28 <= figures.index(20.0) - figures.index(10.0) <= 32


def test_the_hour_is_named_by_words_that_programs_know(hub: RunningHub) -> None:
    hub.add(now("gpu01", gpu(0)))
    told = msgspec.json.decode(hub.ask("GET", RECENT).body)
    assert set(told) == {"grain_seconds", "from", "node", "gpus"}
    assert set(told["gpus"][UUID]) == {
        "busy_percent",
        "memory_used_mebibytes",
        "power_watts",
        "temperature_celsius",
        "state",
    }


def test_a_node_that_is_not_there_has_no_hour(hub: RunningHub) -> None:
    answer = hub.ask("GET", "/api/v1/nodes/nobody/recent")
    assert (answer.status, error_of(answer)) == (404, "unknown_node")


def test_the_hour_of_a_removed_node_goes_with_it(hub: RunningHub) -> None:
    hub.add(now("gpu01", gpu(0, busy_percent=37.0)))
    assert hub.change("DELETE", NODE, {}, token=hub.token("admin")).status == 204
    hub.add(now("gpu01", gpu(0, busy_percent=5.0)))
    assert known(hour_of(hub).gpus[UUID].busy_percent) == [5.0]


def test_the_hour_is_for_those_who_may_look(hub: RunningHub) -> None:
    node_token = hub.add(now("gpu01", gpu(0)))
    asked = [
        hub.ask("GET", RECENT, token=token) for token in (hub.token("viewer"), node_token, "x")
    ]
    assert [answer.status for answer in asked] == [200, 403, 401]
