"""The `files` source: reports in a shared folder, whatever its writers leave there."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.hub import shared_folder
from fleet_smi.hub.file_hosts import FileHosts
from fleet_smi.hub.sources import SOURCES, files
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import (
    MAX_INLINE_BYTES,
    MAX_REPORT_BYTES,
    Report,
    decode_report,
    encode_report,
    encode_report_json,
    encode_snapshot,
)
from tests.builders import NOON, gpu, snapshot
from tests.delivery.source_runner import run_source
from tests.machines import wait_until


def report(sequence: int = 1, *, sent_at: float = NOON, **fields: object) -> bytes:
    taken = snapshot(gpu(0), sequence=sequence, **fields)  # type: ignore[arg-type]
    return encode_report([encode_snapshot(taken)], sent_at)


def leave(folder: Path, name: str, body: bytes, written_at: float = NOON) -> Path:
    """Put a file there as an agent does: whole, in one step."""
    draft = folder / f".{name}.draft"
    draft.write_bytes(body)
    os.utime(draft, (written_at, written_at))
    return draft.replace(folder / f"{name}.fsmi")


def poll_once(folder: Path, *, now: float = NOON) -> Sequence[Delivery]:
    return asyncio.run(FilesSource(str(folder), clock=lambda: now).poll())


def failure(delivery: Delivery) -> DeliveryError:
    assert isinstance(delivery.result, DeliveryError)
    return delivery.result


def test_every_report_file_is_a_node(tmp_path: Path) -> None:
    leave(tmp_path, "gpu02", report())
    leave(tmp_path, "gpu01", encode_report_json([snapshot(gpu(0))], NOON))
    (tmp_path / "README").write_text("not a report")
    (tmp_path / ".gpu03.fsmi").write_bytes(report())
    assert [each.target for each in poll_once(tmp_path)] == ["gpu01", "gpu02"]
    assert all(isinstance(each.result, Snapshot) for each in poll_once(tmp_path))


def test_the_age_counts_sampling_and_writing(tmp_path: Path) -> None:
    leave(tmp_path, "gpu01", report(taken_at=NOON - 3, sent_at=NOON), written_at=NOON - 60)
    (delivery,) = poll_once(tmp_path)
    assert delivery.age_seconds == pytest.approx(63.0)


def test_a_file_server_with_a_fast_clock_gives_no_negative_age(
    tmp_path: Path,
) -> None:
    leave(tmp_path, "gpu01", report(taken_at=NOON), written_at=NOON + 50)
    (delivery,) = poll_once(tmp_path)
    assert delivery.age_seconds == 0.0


def test_a_file_dated_far_in_the_future_is_an_error(tmp_path: Path) -> None:
    leave(tmp_path, "gpu01", report(taken_at=NOON), written_at=NOON + 7200)
    source = FilesSource(str(tmp_path), clock=lambda: NOON)
    for _ in range(2):
        (delivery,) = asyncio.run(source.poll())
        message = "gpu01: is dated 2 h from now: its age is unknown until it changes"
        assert str(failure(delivery)) == message


def test_a_file_dated_far_in_the_future_is_accepted_once_it_changes(tmp_path: Path) -> None:
    source = FilesSource(str(tmp_path), interval_seconds=0.01, clock=lambda: NOON)
    leave(tmp_path, "gpu01", report(1, taken_at=NOON), written_at=NOON + 7200)
    with run_source(source) as received:
        received.wait_for_error()
        leave(tmp_path, "gpu01", report(2, taken_at=NOON), written_at=NOON + 7260)
        received.wait_for_sequence(2)
    assert received.deliveries[-1].age_seconds == 0.0


def test_a_file_server_with_a_slow_clock_ages_only_the_first_scan(
    tmp_path: Path,
) -> None:
    now = NOON
    source = FilesSource(str(tmp_path), interval_seconds=0.01, clock=lambda: now)
    leave(tmp_path, "gpu01", report(1, taken_at=NOON), written_at=NOON - 3600)
    with run_source(source) as received:
        received.wait_for_sequence(1)
        leave(tmp_path, "gpu01", report(2, taken_at=NOON), written_at=NOON - 3599)
        received.wait_for_sequence(2)
    assert [each.age_seconds for each in received.deliveries] == [3600.0, 0.0]


def test_an_unchanged_file_is_delivered_once(tmp_path: Path) -> None:
    leave(tmp_path, "gpu01", report(1))
    with run_source(FilesSource(str(tmp_path), interval_seconds=0.01)) as received:
        received.wait_for_sequence(1)
        leave(tmp_path, "gpu02", report(5))
        received.wait_for_sequence(5)
        leave(tmp_path, "gpu02", report(6))
        received.wait_for_sequence(6)
    assert [each.sequence for each in received.snapshots] == [1, 5, 6]


def test_a_gpu_missing_from_a_report_is_missing_immediately(tmp_path: Path) -> None:
    source = FilesSource(str(tmp_path), clock=lambda: NOON)
    for cards in ((gpu(0), gpu(1)), (gpu(0),)):
        sent = encode_report([encode_snapshot(snapshot(*cards))], NOON)
        leave(tmp_path, "gpu01", sent, written_at=NOON - len(cards))
        (delivery,) = asyncio.run(source.poll())
        assert isinstance(delivery.result, Snapshot)
        assert len(delivery.result.gpus) == len(cards)


def test_a_node_without_an_interval_is_silent_after_15_minutes(tmp_path: Path) -> None:
    leave(tmp_path, "gpu01", report(interval_seconds=None))
    (delivery,) = poll_once(tmp_path)
    assert isinstance(delivery.result, Snapshot)
    assert delivery.result.interval_seconds == 300.0


def test_silence_counts_the_interval_of_the_writer_and_that_of_the_reader(tmp_path: Path) -> None:
    # At the defaults: written every 2 s, read every 5 s. Both are as late as they may be.
    fleet, now = FleetState(), NOON
    source = FilesSource(str(tmp_path), clock=lambda: now)
    for number in range(5):
        now = NOON + 5.0 * number
        taken_at = now - 2.0
        body = report(number, taken_at=taken_at, sent_at=taken_at, interval_seconds=2.0)
        leave(tmp_path, "gpu01", body, written_at=taken_at)
        (delivery,) = asyncio.run(source.poll())
        assert isinstance(delivery.result, Snapshot)
        fleet.apply(delivery.result, now - delivery.age_seconds, Via("files", "gpu01"))
        # Just before the next look.
        assert not fleet.view(now + 4.9).nodes[0].silent
    assert fleet.view(now + 30.0).nodes[0].silent


def test_links_and_pipes_are_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    (tmp_path / "link.fsmi").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").mkdir()
    leave(tmp_path / "elsewhere", "secret", report())
    (tmp_path / "hard.fsmi").hardlink_to(tmp_path / "elsewhere" / "secret.fsmi")
    os.mkfifo(tmp_path / "pipe.fsmi")
    (tmp_path / "folder.fsmi").mkdir()
    leave(tmp_path, "right", report())
    found = {each.target: each.result for each in poll_once(tmp_path)}
    assert {name for name, what in found.items() if isinstance(what, Refused)} == {
        "link",
        "hard",
        "pipe",
        "folder",
        "elsewhere",
    }
    assert isinstance(found["right"], Snapshot)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "is empty"),
        (report()[:-9], "not a report"),
        (b"\xff" * 20, "not a report"),
        (b"x" * (MAX_REPORT_BYTES + 1), "is larger than 8 MiB"),
    ],
    ids=["empty", "half-written", "garbage", "huge"],
)
def test_an_undecodable_file_is_a_failure_of_its_node_only(
    tmp_path: Path, body: bytes, message: str
) -> None:
    leave(tmp_path, "bad", body)
    leave(tmp_path, "good", report())
    bad, good = poll_once(tmp_path)
    assert isinstance(failure(bad), Undecodable)
    assert str(failure(bad)).startswith("bad: ")
    assert message in str(failure(bad))
    assert isinstance(good.result, Snapshot)


def test_a_file_that_could_never_be_read_is_not_listed_once_it_is_gone(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    hosts = FileHosts([str(old), str(new)])
    sources = {}
    for folder in (old, new):
        folder.mkdir()
        leave(folder, "other", report(node=f"other-in-{folder.name}"))
        sources[folder] = FilesSource(str(folder), clock=lambda: NOON, hosts=hosts)
    bad = leave(old, "gpu01", b"not a report")

    def scan(folder: Path) -> dict[str, Snapshot | DeliveryError | None]:
        scanned = asyncio.run(sources[folder]._scan(reread=False))
        return {delivery.target: delivery.result for delivery in scanned}

    assert isinstance(scan(old)["gpu01"], Undecodable)
    bad.unlink()
    assert scan(old) == {"gpu01": None}
    # Its host may be reported by a file of another folder now, under its own name.
    leave(new, "gpu01", report())
    assert isinstance(scan(new)["gpu01"], Snapshot)


def test_a_missing_folder_is_named_in_the_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    message = f"{gone}: the folder cannot be read: No such file or directory"
    with pytest.raises(Unreachable, match=message):
        poll_once(gone)
    with run_source(FilesSource(str(gone), interval_seconds=0.01)) as received:
        assert isinstance(received.wait_for_error(), Unreachable)
        assert str(received.wait_for_error()) == message


def test_a_folder_that_returns_clears_its_failure(tmp_path: Path) -> None:
    folder = tmp_path / "nfs"
    with run_source(FilesSource(str(folder), interval_seconds=0.01)) as received:
        received.wait_for_error()
        folder.mkdir()
        wait_until(lambda: "no file of a node in this folder" in str(received.wait_for_error()))
        leave(folder, "gpu01", report(1))
        received.wait_for_sequence(1)
    back = next(each for each in received.deliveries if each.result is None)
    assert back.target == str(folder)
    assert [each.name for each in received.fleet().view(NOON).nodes] == ["gpu01"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_cannot_report_the_id_of_a_target_that_has_not_reported_yet(
    tmp_path: Path, source: str
) -> None:
    claimed = Via(source, "gpu01").placeholder_id
    leave(tmp_path, "mallory", report(node_id=claimed))
    (delivery,) = poll_once(tmp_path)
    assert isinstance(failure(delivery), Undecodable)
    assert "node_id" in str(failure(delivery))


def test_a_folder_cannot_invent_nodes_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write there replaces its files by those of new nodes, again and again."""
    monkeypatch.setattr(files, "MAX_FILES", 3)
    source = FilesSource(str(tmp_path), clock=lambda: NOON)
    results = []
    for number in range(6):
        leave(tmp_path, "gpu01", report(node=f"invented{number}"))
        results += [each.result for each in asyncio.run(source._scan(reread=True))]
    assert [isinstance(each, Refused) for each in results] == [False] * 3 + [True] * 3
    leave(tmp_path, "gpu01", report(node="invented1"))
    (known,) = asyncio.run(source.poll())
    assert isinstance(known.result, Snapshot)


def scan(source: FilesSource) -> list[str]:
    """The targets of which something is delivered."""
    return [each.target for each in asyncio.run(source._scan(reread=False))]


def test_files_whose_names_come_first_do_not_hide_a_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_folder, "MAX_FILES", 3)
    source = FilesSource(str(tmp_path), clock=lambda: NOON)
    leave(tmp_path, "gpu01", report(1))
    assert scan(source) == ["gpu01"]
    for number in range(5):
        leave(tmp_path, f"a{number}", b"junk")
    leave(tmp_path, "gpu01", report(2))
    # The folder says that some are left out, until none is.
    assert scan(source) == [str(tmp_path), "a0", "a1", "gpu01"]
    for number in range(5):
        (tmp_path / f"a{number}.fsmi").unlink()
    left_out, *_ = asyncio.run(source._scan(reread=False))
    assert (left_out.target, left_out.result) == (str(tmp_path), None)
    assert str(tmp_path) not in scan(source)


def test_new_and_large_files_take_turns_and_do_not_delay_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_UNUSUAL_FILES_SECONDS", 0.0)
    source = FilesSource(str(tmp_path), clock=lambda: NOON)
    leave(tmp_path, "gpu01", report(1))
    assert scan(source) == ["gpu01"]
    for name in ("a0", "a1", "a2"):
        leave(tmp_path, name, bytes(MAX_INLINE_BYTES + 1))
    turns = []
    for sequence in range(2, 6):
        leave(tmp_path, "gpu01", report(sequence))
        turns.append(scan(source))
    assert turns == [["a0", "gpu01"], ["a1", "gpu01"], ["a2", "gpu01"], ["a0", "gpu01"]]


def test_what_was_read_too_late_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_released = threading.Event()

    def decode_late(body: bytes, *, json: bool) -> Report:
        assert is_released.wait(60)
        return decode_report(body, json=json)

    monkeypatch.setattr(files, "decode_report", decode_late)
    leave(tmp_path, "gpu01", report(7))
    source = FilesSource(str(tmp_path), interval_seconds=0.01, timeout_seconds=0.2)
    with run_source(source) as received:
        received.wait_for_error(Unreachable)
        is_released.set()
        received.wait_for_sequence(7)
