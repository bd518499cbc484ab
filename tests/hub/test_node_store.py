"""The node store: state across restarts, retries, and no caller ever blocks."""

import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct
from sqlalchemy import Engine, event, text

from fleet_smi.hub.database import DATABASE_FILE, open_database, write_transaction
from fleet_smi.hub.node_store import NodeStore
from tests.machines import wait_until


class Known(Struct, frozen=True, kw_only=True):
    """Stands for what a fleet remembers of a node."""

    node_id: str
    name: str
    at: float | None = 1.0
    data: bytes = b""


def known(number: int, **values: object) -> Known:
    return Known(node_id=f"id-{number}", name=f"gpu{number}", **values)  # type: ignore[arg-type]


@pytest.fixture
def memory(engine: Engine) -> Iterator[NodeStore[Known]]:
    opened = NodeStore(engine, Known, retry_seconds=0.01)
    yield opened
    opened.close()


def test_saved_nodes_are_loaded_after_a_restart(tmp_path: Path) -> None:
    nodes = [known(1, data=b"\x00\xff"), known(2, at=None)]
    engine = open_database(tmp_path / "state")
    memory = NodeStore(engine, Known)
    memory.save(nodes)
    memory.close()
    engine.dispose()
    engine = open_database(tmp_path / "state")
    memory = NodeStore(engine, Known)
    assert sorted(memory.load(), key=lambda node: node.node_id) == nodes
    memory.close()
    engine.dispose()


def test_the_latest_state_of_a_node_is_saved(memory: NodeStore[Known]) -> None:
    memory.save([known(1, at=1.0), known(2), known(3)])
    memory.save([known(1, at=2.0)], removed=["id-2"])
    memory.save([], removed=["id-3"])
    number = memory.save([known(3, at=9.0)])
    wait_until(lambda: memory.durable_batch == number)
    assert {node.node_id: node.at for node in memory.load()} == {"id-1": 2.0, "id-3": 9.0}


def _save_and_die(state: Path) -> None:
    memory = NodeStore(open_database(state), Known)
    number = memory.save([known(each) for each in range(50)])
    wait_until(lambda: memory.durable_batch >= number)
    os.kill(os.getpid(), signal.SIGKILL)


def test_durable_nodes_survive_a_kill(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_save_and_die, args=(tmp_path / "state",)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    engine = open_database(tmp_path / "state")
    memory = NodeStore(engine, Known)
    assert len(memory.load()) == 50
    memory.close()
    engine.dispose()


class Disk:
    """The disk as the hub's connections find it; room in pages, patience in milliseconds."""

    def __init__(self, engine: Engine) -> None:
        self.pages = 1 << 30
        event.listen(engine, "checkout", self._prepare)

    def _prepare(self, connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA busy_timeout=1")
        connection.execute(f"PRAGMA max_page_count={self.pages}")


def test_a_locked_database_blocks_no_caller_and_the_latest_state_is_written_later(
    memory: NodeStore[Known], engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Disk(engine)
    other = sqlite3.connect(tmp_path / "state" / DATABASE_FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    numbers = [memory.save([known(1, at=float(at))]) for at in range(100)]
    wait_until(lambda: memory.consecutive_failures >= 3)
    assert memory.durable_batch == 0
    other.execute("ROLLBACK")
    other.close()
    wait_until(lambda: memory.durable_batch == numbers[-1])
    assert memory.consecutive_failures == 0
    assert [node.at for node in memory.load()] == [99.0]
    output = [record.getMessage() for record in caplog.records]
    assert len(output) == 2  # once when it begins, once when it ends
    assert "database is locked" in output[0]
    assert "saved again" in output[1]


def test_writes_to_a_full_disk_are_retried(memory: NodeStore[Known], engine: Engine) -> None:
    disk = Disk(engine)
    disk.pages = 1
    memory.save([known(each, data=bytes(6000)) for each in range(40)])
    wait_until(lambda: memory.consecutive_failures >= 2)
    number = memory.save([known(0, at=5.0)], removed=["id-1"])
    assert memory.load() == []
    disk.pages = 1 << 30
    wait_until(lambda: memory.durable_batch == number)
    stored = {node.node_id: node.at for node in memory.load()}
    assert len(stored) == 39
    assert stored["id-0"] == 5.0


def test_closing_ends_even_if_the_disk_stays_full(engine: Engine) -> None:
    Disk(engine).pages = 1
    before = set(threading.enumerate())
    memory = NodeStore(engine, Known, retry_seconds=600.0)
    memory.save([known(each, data=bytes(6000)) for each in range(40)])
    wait_until(lambda: memory.consecutive_failures > 0)
    memory.close()
    assert memory.durable_batch == 0
    assert set(threading.enumerate()) <= before


def test_one_undecodable_row_does_not_hide_the_others(
    memory: NodeStore[Known], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    number = memory.save([known(1), known(2)])
    wait_until(lambda: memory.durable_batch == number)
    with write_transaction(engine) as connection:
        connection.execute(text("UPDATE nodes SET remembered = x'c1' WHERE node_id = 'id-1'"))
    assert memory.load() == [known(2)]
    assert "gpu1: its saved state cannot be read" in caplog.text


def test_two_thousand_nodes_are_saved_in_one_batch(memory: NodeStore[Known]) -> None:
    number = memory.save([known(each, data=bytes(6000)) for each in range(2000)])
    wait_until(lambda: memory.durable_batch == number)
    assert len(memory.load()) == 2000
