"""The work budget of reports: one node's credential must not slow down the others."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fleet_smi.client.connection import HubConnection
from fleet_smi.hub.credentials import Identity
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.process_limit import MAX_PROCESSES_PER_DEVICE
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.server import timeouts
from fleet_smi.server.report_budget import ReportBudget
from fleet_smi.wire.report import (
    MAX_INLINE_BYTES,
    MAX_REPORT_BYTES,
    encode_report,
    encode_snapshot,
)
from tests.builders import gpu, process, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub

NODE = Identity(role="node", name="gpu01", node_id="id-of-gpu01", token_id="1")
OTHER = Identity(role="node", name="gpu02", node_id="id-of-gpu02", token_id="2")
OPEN = Identity(role="viewer", name="anybody", auth_method="open")


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_work_is_counted_per_credential_and_comes_back_with_time() -> None:
    clock = Clock()
    budget = ReportBudget(10.0, clock)
    for _ in range(20):
        assert budget.admit(NODE, MAX_REPORT_BYTES) is None
    refusal = budget.admit(NODE, 100)
    assert refusal is not None
    assert (refusal.status, refusal.retry_after_seconds) == (429, 1)
    assert budget.admit(OTHER, MAX_REPORT_BYTES) is None
    clock.now += refusal.retry_after_seconds or 0
    assert budget.admit(NODE, 100) is None
    budget.settle(NODE, 100, 2.0)  # it took two seconds, which are a fifth of one each second
    refusal = budget.admit(NODE, 100)
    assert refusal is not None
    assert refusal.retry_after_seconds in range(9, 12)
    for _ in range(100):
        assert budget.admit(OPEN, MAX_REPORT_BYTES) is None


def test_ordinary_reports_never_exceed_it() -> None:
    clock = Clock()
    budget = ReportBudget(10.0, clock)
    for _ in range(50_000):
        clock.now += 0.1
        assert budget.admit(NODE, 20_000) is None
        budget.settle(NODE, 20_000, 0.005)


def test_rows_that_the_history_writes_are_work() -> None:
    budget = ReportBudget(10.0, Clock())
    for _ in range(50):
        assert budget.admit(NODE, 0) is None
        budget.settle(NODE, 0, 0.001, recorded_rows=1000)
    assert budget.admit(NODE, 0) is not None
    assert budget.admit(OTHER, 0) is None


def test_a_report_that_is_half_applied_can_exceed_it() -> None:
    budget = ReportBudget(10.0, Clock())
    assert budget.admit(NODE, MAX_REPORT_BYTES) is None
    assert budget.check(NODE, MAX_REPORT_BYTES, 1.0, 20_000) is None
    refusal = budget.check(NODE, MAX_REPORT_BYTES, 1.0, 200_000)
    assert refusal is not None
    assert refusal.status == 429
    assert budget.check(OTHER, MAX_REPORT_BYTES, 1.0, 20_000) is None
    assert budget.check(OPEN, MAX_REPORT_BYTES, 1.0, 200_000) is None


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "hub", hub__node_budget="0.1s") as running:
        yield running


def send(hub: ThreadedHub, token: str, *snapshots: Snapshot) -> tuple[int, dict[str, str]]:
    body = encode_report([encode_snapshot(each) for each in snapshots], time.time())
    response = hub.request("POST", REPORTS_PATH, body, token=token)
    return response.status, response.headers


def taken(sequence: int, node: str = "gpu01") -> Snapshot:
    now = time.time()
    return snapshot(gpu(), node=node, taken_at=now, sequence=sequence, run_id="run")


def test_an_agent_that_is_throttled_waits_and_loses_nothing(
    hub: ThreadedHub, tmp_path: Path
) -> None:
    credential, other = hub.join("id-of-gpu01", "gpu01"), hub.join("id-of-gpu02", "gpu02")
    answers = [send(hub, credential, taken(number)) for number in range(1, 101)]
    statuses = [status for status, _ in answers]
    accepted = statuses.index(429)
    assert statuses[:accepted] == [200] * accepted
    assert int(answers[accepted][1]["retry-after"]) >= 1
    assert send(hub, other, taken(1, "gpu02"))[0] == 200
    # An agent with the same credential finds the budget used up, and sends everything later.
    credentials = CredentialFile(str(tmp_path))
    credentials.store(hub.url, credential)
    session = HubSession(HubConnection(hub.url), credentials)
    outlet = PushOutlet(session, ReportBuffer(Spool(f"{tmp_path}/spool", 1 << 20)))
    for number in range(accepted + 1, 301):
        outlet.publish(taken(number))
    wait_until(lambda: node(hub).sequence == 300, seconds=60.0)
    outlet.close()
    assert node(hub).missing_reports == 0


def test_a_node_whose_processes_all_change_with_every_report_is_throttled(
    hub: ThreadedHub,
) -> None:
    """Each costs a row of the history; the reports themselves are small and fast to decode."""
    credential, other = hub.join("id-of-gpu01", "gpu01"), hub.join("id-of-gpu02", "gpu02")

    def send_new_processes(number: int) -> int:
        now = time.time()
        pids = range(number * 1000, number * 1000 + MAX_PROCESSES_PER_DEVICE)
        processes = tuple(process(pid, started_at=now) for pid in pids)
        gpus = [gpu(index, processes=processes) for index in range(4)]
        return send(hub, credential, snapshot(*gpus, taken_at=now, sequence=number, run_id="run"))[
            0
        ]

    assert 429 in [send_new_processes(number) for number in range(1, 6)]
    wait_until(lambda: send(hub, credential, taken(9))[0] == 200, seconds=60.0)
    assert send(hub, other, taken(1, "gpu02"))[0] == 200


def test_one_report_of_many_samples_cannot_fill_the_history(hub: ThreadedHub) -> None:
    """It is refused in the middle, and goes on from there when it is sent again."""
    credential, now = hub.join("id-of-gpu01", "gpu01"), time.time()
    samples = []
    for number in range(1, 61):
        pids = range(number * 1000, number * 1000 + MAX_PROCESSES_PER_DEVICE)
        processes = tuple(process(pid, started_at=now) for pid in pids)
        gpus = [gpu(index, processes=processes) for index in range(4)]
        at = now - 30 + number / 2
        samples.append(snapshot(*gpus, taken_at=at, sequence=number, run_id="run"))
    history = hub.server.hub.history
    assert history is not None
    assert hub.report(*samples, token=credential).status == 429
    assert 0 < history.recorded_rows < 20_000
    assert 0 < node(hub).sequence < len(samples)


def test_a_chunked_body_is_charged_as_it_comes_and_refused_before_its_end(
    hub: ThreadedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget of this hub is 0.1 s of work: some 1.6 MB."""
    # After this time, a connection whose body does not end is closed.
    monkeypatch.setattr(timeouts, "REQUEST_TIMEOUT_SECONDS", 3.0)
    token, other = hub.join("id-of-gpu01", "gpu01"), hub.join("id-of-gpu02", "gpu02")
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    port = int(hub.url.rpartition(":")[2])
    answers, statuses = [], set[int]()
    for number in range(3):  # none of them ends
        with socket.create_connection(("127.0.0.1", port), 60) as line:
            line.sendall(head.encode())
            with suppress(ConnectionError):
                for _ in range(96):
                    line.sendall(b"%x\r\n%b\r\n" % (1 << 16, b"x" * (1 << 16)))
            # Soon, because the budget recovers while the rest of an answer is awaited.
            statuses.add(send(hub, token, taken(number + 1))[0])
            answers.append(b"".join(iter(lambda: receive(line), b"")))
    assert answers[0].startswith(b"HTTP/1.1 429") or not answers[0]  # reset by what was not read
    assert any(b"too_much_work" in each for each in answers)
    assert 429 in statuses
    assert send(hub, other, taken(1, "gpu02"))[0] == 200


def receive(line: socket.socket) -> bytes:
    with suppress(ConnectionError):
        return line.recv(1 << 16)
    return b""


def node(hub: ThreadedHub) -> NodeView:
    return next(each for each in hub.fleet().nodes if each.name == "gpu01")


def test_a_large_report_is_cut_to_what_viewers_need_and_its_secrets_stay_out(
    tmp_path: Path,
) -> None:
    with ThreadedHub(tmp_path) as hub:
        check_large_report(hub)


def check_large_report(hub: ThreadedHub) -> None:
    credential = hub.join("id-of-gpu01", "gpu01")
    command = "python train.py --password hunter2 " + "x" * 1500
    gpus = [
        gpu(index, processes=tuple(process(1 + pid, command=command) for pid in range(1000)))
        for index in range(4)
    ]
    assert MAX_INLINE_BYTES < len(encode_snapshot(snapshot(*gpus))) < MAX_REPORT_BYTES
    # Without a version, and with one: neither skips the limits.
    for sequence, version in enumerate((None, "1.0"), 1):
        sent = snapshot(
            *gpus, taken_at=time.time(), sequence=sequence, run_id="run", agent_version=version
        )
        assert send(hub, credential, sent)[0] == 200
        admin = hub.token("admin")
        answer = hub.request("GET", "/api/v1/fleet", token=admin).body
        assert len(answer) < 1 << 20
        assert b"hunter2" not in answer
        assert b"--password " in answer
        table = hub.request("GET", "/?processes=true", token=admin).body.decode()
        assert table.count(f"and {1000 - MAX_PROCESSES_PER_DEVICE} more processes") == 4
