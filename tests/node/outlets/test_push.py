"""The push outlet against a real server that refuses, hangs, loses reports and restarts."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.errors import Refused, Unreachable
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node import compact_base, retry
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets import push
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from tests.builders import gpu, snapshot
from tests.machines import wait_until
from tests.node.fake_hub import FakeHub
from tests.node.test_buffer import left_by_a_killed_agent

Start = Callable[..., PushOutlet]


@pytest.fixture(params=[False, True], ids=["full", "compact"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that reads such reports; an agent with a credential sends it compact ones."""
    with FakeHub() as started:
        if request.param:
            started.reads_compact = True
            CredentialFile(str(tmp_path)).store(started.url, "own-token-of-id-of-gpu01")
        yield started


@pytest.fixture
def start(sink: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts the outlet of one agent; its waits are short."""
    monkeypatch.setattr(retry, "_MIN_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(retry, "_MAX_BACKOFF_SECONDS", 0.05)
    monkeypatch.setattr(retry, "_MAX_REFUSED_SECONDS", 0.05)
    monkeypatch.setattr(push, "_CATCH_UP_PAUSE_SECONDS", 0.01)
    started: list[PushOutlet] = []

    def outlet(join: str | None = None) -> PushOutlet:
        reporter = HubSession(HubConnection(sink.url), CredentialFile(str(tmp_path)), join)
        started.append(PushOutlet(reporter, ReportBuffer(Spool(str(tmp_path / "spool")))))
        return started[-1]

    yield outlet
    for each in started:
        each.close()


def taken(sequence: int, run_id: str = "run") -> Snapshot:
    return snapshot(gpu(), sequence=sequence, run_id=run_id, taken_at=time.time())


def test_a_snapshot_arrives_as_it_was_taken(sink: FakeHub, start: Start) -> None:
    sent = taken(1)
    start().publish(sent)
    wait_until(lambda: sink.received == [sent])


def test_no_sample_is_missing_after_the_hub_was_killed_and_lost_its_last_seconds(
    sink: FakeHub, start: Start, tmp_path: Path
) -> None:
    outlet = start()
    for sequence in range(1, 11):
        outlet.publish(taken(sequence))
    wait_until(lambda: sink.sequences() == set(range(1, 11)))
    sink.stores_reports = False
    for sequence in range(11, 21):
        outlet.publish(taken(sequence))
    wait_until(lambda: sink.sequences() == set(range(1, 21)))
    sink.kill()
    assert sink.sequences() == set(range(1, 11)), "it lost what it had not kept"
    for sequence in range(21, 321):  # ten minutes at two seconds
        outlet.publish(taken(sequence))
    wait_until(lambda: any((tmp_path / "spool").iterdir()))
    sink.stores_reports = True
    sink.start()
    wait_until(lambda: sink.sequences() == set(range(1, 321)))
    order = [each.sequence for each in sink.received[10:]]
    assert order == sorted(order), "back-filled in order"


@pytest.mark.parametrize("is_older_version", [False, True])
def test_a_hub_that_restarts_between_two_reports_gets_what_it_forgot_again(
    sink: FakeHub, start: Start, is_older_version: bool
) -> None:
    outlet = start()
    sink.is_older_version = is_older_version
    sink.stores_reports = False
    outlet.publish(taken(1))
    wait_until(lambda: sink.sequences() == {1})
    sink.kill()
    sink.stores_reports = True
    sink.start()
    outlet.publish(taken(2))
    wait_until(lambda: sink.sequences() == {1, 2})
    if not is_older_version:
        assert [each.sequence for each in sink.received] == [1, 2], "in order"


def test_what_a_full_history_did_not_record_is_resent_without_a_further_sample(
    sink: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "_UNRECORDED_RETRY_SECONDS", 0.01)
    outlet = start()
    outlet.publish(taken(1))
    wait_until(lambda: sink.sequences() == {1})
    sink.is_full = True
    for sequence in range(2, 5):
        outlet.publish(taken(sequence))
    wait_until(lambda: sum(sink.batches) > 6)  # it asks again with its newest sample
    assert sink.sequences() == {1}
    sink.make_room()
    wait_until(lambda: sink.sequences() == {1, 2, 3, 4})
    order = [each.sequence for each in sink.received]
    assert order == sorted(order), "in order"


def test_what_a_full_history_did_not_record_is_not_lost_when_the_agent_is_killed(
    sink: FakeHub, start: Start, tmp_path: Path
) -> None:
    outlet = start()
    outlet.publish(taken(1))
    wait_until(lambda: sink.sequences() == {1})
    sink.is_full = True
    for sequence in range(2, 5):
        outlet.publish(taken(sequence))
    wait_until(lambda: left_by_a_killed_agent(tmp_path) == [2, 3, 4])


def test_back_fill_goes_in_batches_within_the_bound(sink: FakeHub, start: Start) -> None:
    sink.kill()
    outlet = start()
    for sequence in range(1, 251):
        outlet.publish(taken(sequence))
    sink.start()
    wait_until(lambda: sink.sequences() == set(range(1, 251)))
    assert max(sink.batches) <= 100
    assert len(sink.batches) < 20


def test_what_was_unsent_when_the_agent_ended_is_sent_by_the_next(
    sink: FakeHub, start: Start
) -> None:
    sink.kill()
    first = start()
    for sequence in range(1, 6):
        first.publish(taken(sequence, "first"))
    first.close()
    sink.start()
    start().publish(taken(1, "second"))
    wait_until(lambda: sink.sequences("first") == {1, 2, 3, 4, 5})
    wait_until(lambda: sink.sequences("second") == {1})


def test_a_hub_that_hangs_delays_neither_a_tick_nor_the_end(sink: FakeHub, start: Start) -> None:
    sink.hanging.set()
    outlet = start()
    outlet.publish(taken(1))
    assert sink.request_received.wait(60)
    outlet.publish(taken(2))
    outlet.close()
    sink.hanging.clear()
    start().deliver(taken(3))
    assert {1, 2, 3} <= sink.sequences()


def test_the_hub_may_request_slower_reports(sink: FakeHub, start: Start) -> None:
    sink.interval_seconds = 30.0
    outlet = start()
    outlet.deliver(taken(1))
    assert outlet.requested_interval_seconds == 30.0


def test_a_sample_that_the_hub_cannot_read_does_not_hold_up_the_others(
    sink: FakeHub, start: Start
) -> None:
    sink.rejects = lambda each: each.sequence == 3
    sink.kill()
    outlet = start()
    for sequence in range(1, 6):
        outlet.publish(taken(sequence))
    sink.start()
    wait_until(lambda: sink.sequences() == {1, 2, 4, 5})
    outlet.publish(taken(6))
    wait_until(lambda: 6 in sink.sequences())


def test_samples_beside_one_that_the_hub_cannot_read_are_resent_until_they_are_durable(
    sink: FakeHub, start: Start
) -> None:
    sink.rejects = lambda each: each.sequence == 3
    sink.stores_reports = False
    sink.kill()
    outlet = start()
    for sequence in range(1, 6):
        outlet.publish(taken(sequence))
    sink.start()
    wait_until(lambda: sink.sequences() == {1, 2, 4, 5})
    sink.kill()
    assert sink.sequences() == set()
    sink.stores_reports = True
    sink.start()
    outlet.publish(taken(6))
    wait_until(lambda: sink.sequences() == {1, 2, 4, 5, 6})


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [
        (401, "unauthorized", "Refused"),
        (403, "forbidden", "Refused"),
        (400, "wrong_version", "UnsupportedVersion"),
        (503, "unavailable", "Unreachable"),
    ],
)
def test_a_refusal_is_logged_once_then_counted_and_no_sample_is_lost(
    sink: FakeHub,
    start: Start,
    caplog: pytest.LogCaptureFixture,
    status: int,
    code: str,
    fault: str,
) -> None:
    caplog.set_level(logging.INFO)
    sink.error = status, code
    outlet = start()
    outlet.publish(taken(1))
    wait_until(lambda: len(sink.requests) > 5)
    outlet.publish(taken(2))
    sink.error = None
    wait_until(lambda: sink.sequences() == {1, 2})
    wait_until(lambda: "recovered=true" in caplog.text)
    assert caplog.text.count(f"fault={fault}") == 1
    assert f"said {code}" in caplog.text


def test_a_failed_single_report_is_an_error_and_the_sample_is_spooled(
    sink: FakeHub, start: Start
) -> None:
    sink.kill()
    outlet = start()
    with pytest.raises(Unreachable, match="is `fleet-smi hub` running"):
        outlet.deliver(taken(1))
    outlet.close()
    sink.start()
    start().deliver(taken(2))
    assert sink.sequences() == {1, 2}


@pytest.mark.parametrize("sink", [False], indirect=True)
def test_a_node_joins_once_and_then_uses_its_own_credential(
    sink: FakeHub, start: Start, tmp_path: Path
) -> None:
    first = start(join="join-token")
    first.deliver(taken(1))
    first.close()
    start(join="join-token").deliver(taken(2))
    own = "Bearer own-token-of-id-of-gpu01"
    assert sink.requests == [
        ("/api/v1/join", "Bearer join-token"),
        ("/api/v1/reports", own),
        ("/api/v1/reports", own),
    ]
    assert (tmp_path / "credential.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("sink", [False], indirect=True)
def test_a_refused_join_says_what_to_do(sink: FakeHub, start: Start) -> None:
    sink.error = 401, "unauthorized"
    with pytest.raises(Refused, match="join-command"):
        start(join="old").deliver(taken(1))


def test_closing_leaves_no_thread(sink: FakeHub, start: Start) -> None:
    before = set(threading.enumerate())
    outlet = start()
    outlet.publish(taken(1))
    wait_until(lambda: bool(sink.received))
    (own,) = (each for each in set(threading.enumerate()) - before if each.name == "push")
    outlet.close()
    wait_until(lambda: not own.is_alive())


def deliver_each(sink: FakeHub, outlet: PushOutlet, *sequences: int) -> int:
    """Deliver one sample after the other; return how many came as compact reports."""
    before = sink.compact_count
    for sequence in sequences:
        sent = taken(sequence)
        outlet.deliver(sent)
        assert sink.received[-1] == sent
    return sink.compact_count - before


def test_reports_are_compact_after_a_full_one_and_a_full_one_comes_again_and_again(
    sink: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = start()
    assert deliver_each(sink, outlet, 1, 2, 3, 4, 5) == (4 if sink.reads_compact else 0)
    outlet.close()
    again = start()
    assert deliver_each(sink, again, 6) == 0, "the agent was restarted"
    monkeypatch.setattr(compact_base, "FULL_REPORT_SECONDS", 0.0)
    deliver_each(sink, again, 7)
    again.close()
    assert deliver_each(sink, start(), 8, 9, 10) == 0, "each is due to be a full one"


@pytest.mark.parametrize("sink", [True], indirect=True)
def test_after_a_refused_compact_report_the_full_one_follows_at_once_and_for_a_while(
    sink: FakeHub, start: Start
) -> None:
    outlet = start()
    deliver_each(sink, outlet, 1, 2)
    sink.latest = None
    requests = len(sink.requests)
    assert deliver_each(sink, outlet, 3, 4, 5) == 0
    assert len(sink.requests) - requests == 4, "one was refused"


@pytest.mark.parametrize("sink", [True], indirect=True)
def test_after_any_failure_the_next_report_is_a_full_one(sink: FakeHub, start: Start) -> None:
    outlet = start()
    deliver_each(sink, outlet, 1, 2)
    sink.error = 503, "busy"
    with pytest.raises(Unreachable):
        outlet.deliver(taken(3))
    sink.error = None
    before = sink.compact_count
    outlet.deliver(taken(4))
    assert (sink.sequences(), sink.compact_count) == ({1, 2, 3, 4}, before)
    outlet.deliver(taken(5))
    outlet.deliver(taken(6))
    assert sink.compact_count > before


@pytest.mark.parametrize("sink", [True], indirect=True)
def test_what_is_not_only_figures_is_sent_in_full(sink: FakeHub, start: Start) -> None:
    outlet = start()
    deliver_each(sink, outlet, 1, 2)
    before = sink.compact_count
    outlet.deliver(snapshot(gpu(), gpu(1), sequence=3, run_id="run", taken_at=time.time()))
    assert (sink.compact_count, len(sink.received[-1].gpus)) == (before, 2)
