"""The report buffer: order, at-least-once delivery, size limits, in memory and on disk."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.spool import MAX_BATCH_SAMPLES, Spool


def sample(sequence: int, run_id: str = "run", weight: int = 0) -> BufferedSample:
    # Incompressible, so that few samples reach a size limit.
    body = {"run_id": run_id, "sequence": sequence, "rest": os.urandom(weight)}
    return BufferedSample(run_id, sequence, msgspec.msgpack.encode(body))


def sequences(samples: list[BufferedSample]) -> list[int]:
    return [each.sequence for each in samples]


def drained(buffer: ReportBuffer) -> list[int]:
    """Send everything to a hub that stores it immediately; return the sequence numbers."""
    sent: list[int] = []
    while batch := buffer.next_batch():
        sent += sequences(batch)
        buffer.acknowledge(batch[-1].sequence)
    return sent


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(str(tmp_path / "spool"))
    yield opened
    opened.close()


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "spool").iterdir())


def test_samples_go_out_in_order_and_nothing_is_written_while_the_hub_is_there(
    spool: Spool, tmp_path: Path
) -> None:
    buffer = ReportBuffer(spool)
    for sequence in range(1, 6):
        buffer.add(sample(sequence))
    assert drained(buffer) == [1, 2, 3, 4, 5]
    assert stored(tmp_path) == []


def test_sent_samples_that_are_not_durable_are_sent_again(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    for sequence in range(1, 6):
        buffer.add(sample(sequence))
        buffer.next_batch()
        buffer.acknowledge(min(sequence, 3))
    buffer.requeue()
    buffer.add(sample(6))
    assert drained(buffer) == [4, 5, 6]


def test_samples_sent_without_a_response_are_sent_again(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    buffer.add(sample(1))
    buffer.next_batch()
    buffer.requeue()
    assert drained(buffer) == [1]


def test_while_the_hub_is_unreachable_every_sample_is_spooled_immediately(tmp_path: Path) -> None:
    buffer = ReportBuffer(Spool(str(tmp_path / "spool")))
    buffer.requeue()
    for sequence in range(1, 4):
        buffer.add(sample(sequence))
    assert left_by_a_killed_agent(tmp_path) == [1, 2, 3]
    buffer.close()


def left_by_a_killed_agent(folder: Path) -> list[int]:
    """Return what the next agent would send if the one with this buffer were killed now."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "spool", copy)
    after = ReportBuffer(Spool(str(copy)))
    left = drained(after)
    after.close()
    return left


def test_a_restarted_agent_sends_the_samples_of_its_last_run_first(tmp_path: Path) -> None:
    before = ReportBuffer(Spool(str(tmp_path / "spool")))
    for sequence in range(1, 251):
        before.add(sample(sequence, "old"))
    before.close()
    after = ReportBuffer(Spool(str(tmp_path / "spool")))
    after.add(sample(1, "new"))
    sent = []
    while batch := after.next_batch():
        sent += [(each.run_id, each.sequence) for each in batch]
        after.acknowledge(batch[-1].sequence)
    assert sent == [*(("old", number) for number in range(1, 251)), ("new", 1)]
    after.close()
    assert stored(tmp_path) == []


def test_back_filled_samples_that_are_not_durable_are_sent_again_first(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    buffer.add(sample(1))
    buffer.next_batch()
    buffer.acknowledge(None)
    buffer.requeue()
    for sequence in range(2, 2 * MAX_BATCH_SAMPLES):
        buffer.add(sample(sequence))
    buffer.next_batch()
    buffer.acknowledge(None)
    buffer.requeue()
    assert drained(buffer) == list(range(1, 2 * MAX_BATCH_SAMPLES))


def test_a_sample_that_the_hub_refuses_for_good_is_dropped(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    buffer.add(sample(1))
    buffer.next_batch()
    buffer.discard()
    buffer.requeue()
    assert drained(buffer) == []


def test_a_report_carries_no_more_than_its_bound(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    for sequence in range(1, 4):
        buffer.add(sample(sequence, weight=600_000))
    assert sequences(buffer.next_batch()) == [1]


def test_where_the_disk_is_full_samples_stay_in_memory_thinned_to_fit(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = ReportBuffer(spool)
    buffer.requeue()
    monkeypatch.setattr(spool, "append", full)
    for sequence in range(1, 401):
        buffer.add(sample(sequence, weight=10_000))
    sent = drained(buffer)
    assert 100 < len(sent) < 250
    assert sent[0] == 1
    assert sent[-1] >= 392
    assert sent == sorted(sent)


def full(_: BufferedSample) -> None:
    raise OSError(28, "No space left on device")


def test_a_long_outage_is_thinned_not_cut_off(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"), max_bytes=400_000)
    buffer = ReportBuffer(spool)
    buffer.requeue()
    for sequence in range(1, 2001):
        buffer.add(sample(sequence, weight=1000))
    assert spool.size_bytes <= 400_000
    sent = drained(buffer)
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert sent[0] == 1, "the beginning of the outage is still there"
    assert max(gaps) <= 16 and sent[-1] > 1984, "the outage is covered all along"
    buffer.close()


def test_an_hour_at_two_seconds_fits_unthinned(spool: Spool) -> None:
    buffer = ReportBuffer(spool)
    buffer.requeue()
    for sequence in range(1, 1801):
        buffer.add(sample(sequence, weight=2000))  # more than 8 GPUs and 10 processes take, packed
    assert drained(buffer) == list(range(1, 1801))


def test_the_spool_is_readable_by_its_owner_only(spool: Spool, tmp_path: Path) -> None:
    spool.append(sample(1))
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in stored(tmp_path)} == {0o600}


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "0000000000000007.samples").symlink_to(secret)
    spool = Spool(str(tmp_path / "spool"))
    assert spool.load_segment(7) == []
    spool.close()


def test_an_unusable_folder_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"file/spool.*--state"):
        Spool(str(tmp_path / "file" / "spool"))


def test_two_agents_do_not_share_a_folder(spool: Spool, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another agent"):
        Spool(str(tmp_path / "spool"))


@given(cut=st.integers(min_value=0), broken=st.binary(max_size=40))
def test_a_torn_tail_costs_only_what_was_torn(
    tmp_path_factory: pytest.TempPathFactory, cut: int, broken: bytes
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    spool = Spool(str(folder / "spool"))
    for sequence in range(1, 6):
        spool.append(sample(sequence))
    spool.close()
    (segment,) = stored(folder)
    whole = segment.read_bytes()
    kept = cut % (len(whole) + 1)
    segment.write_bytes(whole[:kept] + broken)
    again = Spool(str(folder / "spool"))
    number = again.next_segment(None)
    assert number is not None
    found = sequences(again.load_segment(number))
    again.close()
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= 5 * kept // len(whole) - 1


def test_samples_that_the_hub_does_not_call_durable_move_to_the_spool(
    spool: Spool, tmp_path: Path
) -> None:
    buffer = ReportBuffer(spool)
    for sequence in range(1, 41):
        buffer.add(sample(sequence, weight=50_000))
        assert sequences(buffer.next_batch()) == [sequence]  # nothing is sent twice
        buffer.acknowledge(None)
    assert stored(tmp_path)
    buffer.requeue()  # the hub was restarted
    assert drained(buffer) == list(range(1, 41))
    assert stored(tmp_path) == []


def test_a_batch_that_a_busy_hub_refuses_is_sent_next(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    for sequence in range(1, 2 * MAX_BATCH_SAMPLES + 1):
        spool.append(sample(sequence))
    buffer = ReportBuffer(spool)
    first = buffer.next_batch()
    buffer.acknowledge(None)
    second = buffer.next_batch()
    buffer.return_batch()
    assert sequences(buffer.next_batch()) == sequences(second)
    buffer.return_batch()
    buffer.add(sample(1000))
    assert drained(buffer) == [*sequences(second), 1000]
    assert sequences(first)[-1] + 1 == sequences(second)[0]
    buffer.close()


@given(
    st.lists(
        st.sampled_from(["add", "send", "unrecorded", "keep", "busy", "lose", "restart"]),
        max_size=40,
    )
)
def test_whatever_happens_no_sample_is_missing_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    folder = str(tmp_path_factory.mktemp("any") / "spool")
    buffer, known, flying, added = ReportBuffer(Spool(folder)), set[int](), list[int](), 0
    safe: set[int] = set()
    for event in [*events, "lose"]:
        if event == "add":
            added += 1
            buffer.add(sample(added))
        elif event in ("send", "keep", "unrecorded"):
            batch = sequences(buffer.next_batch())
            known |= set(batch)
            flying += batch
            if event == "keep":
                safe |= known
            if batch:
                durable = batch[-1] if event == "keep" else None
                buffer.acknowledge(durable, recorded=event != "unrecorded")
        elif event == "busy":
            if buffer.next_batch():
                buffer.return_batch()
        elif event == "lose":
            known = set(safe)
            buffer.requeue()
        else:
            buffer.close()
            buffer = ReportBuffer(Spool(folder))
    known |= set(drained(buffer))
    buffer.close()
    assert known == set(range(1, added + 1))


def test_a_folder_that_cannot_be_locked_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared folder of diskless machines, on a file server without locks."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(UsageError, match=r"cannot be locked .* local disk"):
        Spool(str(tmp_path / "spool"))
