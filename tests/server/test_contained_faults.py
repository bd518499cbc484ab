"""A bug that one node triggers costs that node alone, whatever part of the hub it is in."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from sqlalchemy import update

from fleet_smi.client.hub import HubClient
from fleet_smi.fleet import node_views
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub import stream_diff
from fleet_smi.hub.database import nodes, open_database
from fleet_smi.hub.history.recording.late_reports import LateReports
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HISTORY_FILE, open_history
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import Host
from tests.builders import gpu, process, snapshot
from tests.machines import wait_until
from tests.server.routes.test_stream import Listening
from tests.server.threaded_hub import ThreadedHub

NOT_ENCODABLE = "\ud800"


class Injection(NamedTuple):
    """A function that fails for one node, by the name of that node, and what is then shown.

    Where `renames` is set, it returns a struct that cannot be encoded instead of raising.
    """

    owner: Any
    function: str
    effect: str
    renames: bool = False


INJECTIONS = {
    "judging": Injection(NodeState, "_judge", "report could not be applied"),
    "parts": Injection(NodeState, "parts", "cannot be shown"),
    "view": Injection(node_views, "build_node_view", "cannot be shown"),
    "buffering": Injection(NodeRecorder, "try_buffer", "history"),
    "recording": Injection(NodeRecorder, "record", "history"),
    "silence": Injection(NodeRecorder, "mark_silent", "history"),
    "history-checkpoint": Injection(NodeRecorder, "checkpoint", "history"),
    "open-intervals": Injection(NodeRecorder, "collect_open", "history"),
    "unfinished-rows": Injection(NodeRecorder, "partial_rows", "history"),
    "late-reports": Injection(LateReports, "finish", "history"),
    "payload": Injection(stream_diff, "node_payload", "sent to the page"),
    "encoded-payload": Injection(stream_diff, "node_payload", "sent to the page", renames=True),
    "checkpoint": Injection(NodeState, "checkpoint", "not saved"),
    "encoded-checkpoint": Injection(NodeState, "checkpoint", "not saved", renames=True),
}


def inject(name: str, monkeypatch: pytest.MonkeyPatch, node: str | None = None) -> None:
    """Let the function of an injection fail for the node of that name, or for another one."""
    owner, function, _, renames = INJECTIONS[name]
    name = node or name
    original = getattr(owner, function)

    def failing(*args: Any, **kwargs: Any) -> Any:
        if not renames and any(belongs_to(argument, name) for argument in args):
            raise ZeroDivisionError(f"injected into {function}")
        result = original(*args, **kwargs)
        if renames and belongs_to(result, name):
            return msgspec.structs.replace(result, name=NOT_ENCODABLE)
        return result

    monkeypatch.setattr(owner, function, failing)


def belongs_to(value: Any, name: str) -> bool:
    owner = getattr(value, "node", value)  # of parts
    owner = getattr(owner, "recorder", owner)  # of late reports
    return getattr(owner, "node_id", None) == f"id-of-{name}"


class Reporter:
    """Sends numbered reports of some nodes, each of which is silent after half a second."""

    def __init__(self, hub: ThreadedHub, *names: str) -> None:
        self._hub = hub
        self._tokens = {name: hub.join(f"id-of-{name}", name) for name in names}
        self.sequence = 10

    def send(self, *names: str, sequence: int | None = None, at: float | None = None) -> None:
        if sequence is None:
            sequence = self.sequence = self.sequence + 1
        sent_at = time.time()
        for name in names or self._tokens:
            alice = process(4711 + sequence % 2)
            taken = snapshot(
                gpu(0, uuid=f"GPU-{name}", busy_percent=50.0, processes=(alice,)),
                node=name,
                taken_at=sent_at if at is None else at,
                sequence=sequence,
                run_id="run-1",
                interval_seconds=0.2,
            )
            response = self._hub.report(taken, token=self._tokens[name], sent_at=sent_at)
            assert response.status in (200, 422), response


def views(hub: ThreadedHub) -> dict[str, NodeView]:
    return {view.node_id.removeprefix("id-of-"): view for view in hub.fleet().nodes}


def trouble(hub: ThreadedHub, name: str) -> str:
    return views(hub)[name].trouble or ""


def use_history(hub: ThreadedHub) -> None:
    """Ask for what reads the history of every node."""
    with closing(HubClient(hub.url)) as client:
        client.periods("1h")
        client.usages("1h", by="node")
        for name in views(hub):
            client.series(f"id-of-{name}", "1h")


def test_a_bug_in_the_part_of_one_node_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadedHub(tmp_path / "state") as hub, Listening(hub) as listening:
        reporter = Reporter(hub, "good", *INJECTIONS)
        reporter.send()
        with monkeypatch.context() as patched:
            for name in INJECTIONS:
                inject(name, patched)
            reporter.send()
            use_history(hub)
            # Silent, then back with an older report that fills a gap.
            wait_until(lambda: all(views(hub)[name].silent for name in ("good", "late-reports")))
            in_the_gap, before = time.time() - 0.1, reporter.sequence
            reporter.sequence += 10
            reporter.send()
            reporter.send("late-reports", sequence=before + 1, at=in_the_gap)

            def are_set_aside() -> bool:
                reporter.send()
                shown = {name: view.trouble or "" for name, view in views(hub).items()}
                return all(one.effect in shown[name] for name, one in INJECTIONS.items())

            wait_until(are_set_aside)
            assert hub.request("GET", "/readyz").status == 200
            assert trouble(hub, "good") == ""
            tracebacks = caplog.text.count("Traceback")
            for _ in range(3):
                reporter.send()
            assert caplog.text.count("Traceback") == tracebacks, "logged once, not every time"
        reporter.send()
        for name, injection in INJECTIONS.items():
            if injection.effect != "history":  # which is shown for a minute

                def has_recovered(name: str = name, effect: str = injection.effect) -> bool:
                    reporter.send(name)
                    return effect not in trouble(hub, name)

                wait_until(has_recovered)
        published = {node.name for _ in range(3) for node in listening.next().event.nodes}
        assert "good" in published
    with ThreadedHub(tmp_path / "state") as hub, closing(HubClient(hub.url)) as client:
        assert {"good", *INJECTIONS} <= views(hub).keys()
        held = {row.gpu.node_id for row in client.periods("1h").rows if row.periods}
        assert {"id-of-good", "id-of-judging", "id-of-payload", "id-of-checkpoint"} <= held


def test_a_bug_that_a_clone_triggers_is_neither_shown_at_its_twin_nor_lasting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadedHub(tmp_path / "state") as hub:
        token = hub.join("id-of-first", "first")

        def send(name: str, sequence: int) -> int:
            now = time.time()
            taken = snapshot(
                gpu(0, uuid=f"GPU-{name}"),
                node=name,
                node_id="id-of-first",
                taken_at=now,
                sequence=sequence,
                interval_seconds=60.0,
                boot_id=f"boot-of-{name}",
                run_id=f"run-of-{name}",
                host=Host(addresses=(f"10.0.0.{len(name)}",), booted_at=now - 3600),
            )
            return hub.report(taken, token=token).status

        assert [send("first", 1), send("clone", 1)] == [200, 200]
        assert {"first", "first@clone"} <= views(hub).keys()
        with monkeypatch.context() as patched:
            inject("judging", patched, "first@clone")
            assert send("clone", 2) == 422
        assert "could not be applied" in trouble(hub, "first@clone")
        assert "could not be applied" not in trouble(hub, "first")
        assert send("clone", 3) == 200
        assert "could not be applied" not in trouble(hub, "first@clone")


def test_records_that_cannot_be_restored_are_set_aside_at_start(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with ThreadedHub(folder) as hub:
        Reporter(hub, "good", "bad").send()
    engine = open_database(folder)
    with engine.begin() as connection:
        is_bad = nodes.c.node_id == "id-of-bad"
        connection.execute(update(nodes).where(is_bad).values(remembered=b"\xc1"))
    engine.dispose()
    history = open_history(folder / HISTORY_FILE)
    with history.write_transaction() as connection:
        connection.execute(update(schema.checkpoints).values(data=b"\xc1"))
    history.close()
    for _ in range(2):  # the record stays on disk until the node reports again
        with ThreadedHub(folder) as hub:
            assert "could not be restored" in trouble(hub, "bad")
            assert views(hub)["good"].sequence == 11
    with ThreadedHub(folder) as hub:
        assert hub.server.credentials.revoke_token("id-of-bad")
        reporter = Reporter(hub, "bad")
        reporter.send()
        assert "restored" not in trouble(hub, "bad")
        assert len(views(hub)["bad"].gpus) == 1


def test_a_row_that_the_database_rejects_is_shown_at_its_node_and_as_a_gap(tmp_path: Path) -> None:
    without_end = Presence(node_id="id-of-bad", start=5.0, end=None)
    with ThreadedHub(tmp_path) as hub, closing(HubClient(hub.url)) as client:
        for name in ("bad", "good"):
            hub.join_and_report(snapshot(gpu(), node=name, taken_at=time.time()))
        assert hub.server.archive is not None
        hub.server.archive._writer.put(WriteBatch(presence=[without_end]))

        def troubles() -> dict[str, str | None]:
            return {node.name: node.trouble for node in client.fleet().nodes}

        wait_until(lambda: "history" in (troubles()["bad"] or ""))
        assert troubles()["good"] is None
        (gap,) = client.storage_status().gaps
        assert "1 rows cannot be written, first of presence" in gap.why
