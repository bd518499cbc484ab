"""The buffer of remote write: in order, bounded, and what it drops is known."""

from pathlib import Path

from fleet_smi.hub.metric_export.buffer import RequestBuffer, WriteRequest
from tests.machines import small_disk

BODY = bytes(1000)


def request(number: int, round_id: int | None = None) -> WriteRequest:
    return WriteRequest(number if round_id is None else round_id, float(number), 10, BODY)


def drain(buffer: RequestBuffer) -> list[float]:
    times = []
    while batch := buffer.next_batch(4, 0.0):
        for each in batch:
            buffer.done(each)
        times += [each.at for each in batch]
    return times


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.requests"))


def test_requests_come_out_in_order_whether_or_not_they_were_on_disk(tmp_path: Path) -> None:
    buffer = RequestBuffer(tmp_path / "b", 1 << 20, max_memory_bytes=3500)
    buffer.put([request(0)])
    assert segments(tmp_path / "b") == []
    (first,) = buffer.next_batch(4, 0.0)
    for number in range(1, 20):
        buffer.put([request(number)])
    assert len(segments(tmp_path / "b")) == 4
    buffer.done(first)
    # A hub that ends saves what is left; of a segment that is half sent, only the rest.
    (second,) = buffer.next_batch(1, 0.0)
    buffer.done(second)
    buffer.save()
    buffer.save()
    resumed = RequestBuffer(tmp_path / "b", 1 << 20)
    resumed.put([request(20)])
    assert drain(resumed) == [float(number) for number in range(2, 21)]
    assert (resumed.take_dropped(), resumed.size_bytes) == ([], 0)
    assert segments(tmp_path / "b") == []


def test_only_requests_of_one_round_are_in_a_batch(tmp_path: Path) -> None:
    buffer = RequestBuffer(tmp_path / "b", 1 << 20)
    assert buffer.next_batch(4, 0.0) == []
    buffer.put([request(1, 1), request(2, 1), request(3, 2)])
    assert [each.at for each in buffer.next_batch(4, 0.0)] == [1.0, 2.0]
    assert [each.at for each in buffer.next_batch(1, 0.0)] == [1.0]


def test_at_the_limit_the_oldest_are_dropped_and_counted(tmp_path: Path) -> None:
    buffer = RequestBuffer(tmp_path / "b", 10_000, max_memory_bytes=3500)
    for number in range(40):
        buffer.put([request(number)])
    dropped = buffer.take_dropped()
    assert {each.reason for each in dropped} == {"the buffer was full"}
    left = drain(buffer)
    assert left == [float(number) for number in range(40 - len(left), 40)]
    assert sum(each.samples for each in dropped) == 10 * (40 - len(left))
    assert (dropped[0].start, dropped[-1].end) == (0.0, left[0] - 1)
    assert len(left) * len(BODY) <= 10_000 + 3500


def test_a_damaged_segment_costs_itself_alone(tmp_path: Path) -> None:
    buffer = RequestBuffer(tmp_path / "b", 1 << 20, max_memory_bytes=500)
    for number in range(3):
        buffer.put([request(number)])
    first, second, _ = segments(tmp_path / "b")
    first.write_bytes(b"\x93nonsense")
    second.write_bytes(b"")
    resumed = RequestBuffer(tmp_path / "b", 1 << 20)
    assert drain(resumed) == [2.0]
    assert len(resumed.take_dropped()) == 2


def test_a_full_disk_loses_what_does_not_fit_and_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        buffer = RequestBuffer(disk / "b", 1 << 30, max_memory_bytes=300_000)
        for number in range(4):
            buffer.put([WriteRequest(number, float(number), 10, bytes(400_000))])
        (dropped, *_) = buffer.take_dropped()
        assert "No space left" in dropped.reason
        assert drain(buffer) == [0.0, 1.0]
        buffer.put([request(9)])
        assert drain(buffer) == [9.0]
