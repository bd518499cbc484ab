"""Remote write: what a receiver decodes equals what was encoded."""

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.wire.prometheus import Family, Metric
from fleet_smi.wire.remote_write import Message, SeriesEncoder, parse_labels

STALE = 0x7FF0000000000002
Decoded = dict[tuple[tuple[str, str], ...], tuple[int, int]]
"""By its labels, the bits of the value of a series and its time in milliseconds."""


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of any protobuf message, by their numbers."""
    position = 0

    def varint() -> int:
        nonlocal position
        number = shift = 0
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while position < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        else:
            size = {1: 8, 2: 0}[kind] or varint()
            yield number, data[position : position + size]
            position += size


def decode(messages: Sequence[Message]) -> Decoded:
    found: Decoded = {}
    for message in messages:
        series = list(fields(message.body))
        assert {number for number, _ in series} <= {1}
        assert len(series) == message.samples
        for _, one in series:
            parts = list(fields(one))
            labels = [dict(fields(data)) for number, data in parts if number == 1]
            names = tuple((label[1].decode(), label[2].decode()) for label in labels)
            (sample,) = (dict(fields(data)) for number, data in parts if number == 2)
            assert list(names) == sorted(names)
            assert names not in found
            found[names] = struct.unpack("<Q", sample[1])[0], sample[2]
    return found


def family(name: str, **values: float | None) -> Family:
    return Metric(name, lambda value: value, ""), [
        (f'node="{node}",node_id="{node}"', value) for node, value in values.items()
    ]


def key(name: str, node: str) -> tuple[tuple[str, str], ...]:
    return ("__name__", name), ("node", node), ("node_id", node)


def bits(value: float) -> int:
    (found,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(found)


@given(
    st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True), st.text(), max_size=5),
    st.one_of(st.floats(), st.integers(-(2**70), 2**70)),
    st.floats(0, 1e12),
)
def test_any_labels_and_values_are_decoded_as_they_were(
    labels: dict[str, str], value: float, at: float
) -> None:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in labels.items()
    }
    text = ",".join(f'{name}="{value}"' for name, value in escaped.items())
    present = {name: value for name, value in labels.items() if value}
    assert parse_labels(text) == present
    encoder = SeriesEncoder({"Site": "berlin"})
    found = decode(encoder.encode([(Metric("x", lambda one: one, ""), [(text, value)])], [], at))
    if not -1e18 < value < 1e18:
        assert found == {}
        return
    ((names, (decoded, milliseconds)),) = found.items()
    sent = {name: text.encode("utf-8", "replace").decode() for name, text in present.items()}
    assert dict(names) == {
        "Site": "berlin",
        "__name__": "x",
        **{k: v for k, v in sent.items() if k > "__name__"},
    }
    assert decoded == bits(float(value))
    assert milliseconds == min(max(1 << 35, round(at * 1000)), (1 << 42) - 1)


def test_what_has_no_value_any_more_gets_one_stale_marker() -> None:
    encoder = SeriesEncoder()
    rounds: list[dict[str, float | None]] = [
        {"a": 1.0, "b": 2.0},
        {"a": 1.0, "b": None},
        {"a": 1.0, "b": None},
        {"a": 1.0, "b": 3.0},
    ]
    seen = [
        decode(encoder.encode([family("up", a=1.0, b=1.0), family("x", **values)], ["a", "b"], at))
        for at, values in enumerate(rounds)
    ]
    assert [found.get(key("x", "b"), (None,))[0] for found in seen] == [
        bits(2.0),
        STALE,
        None,
        bits(3.0),
    ]
    assert math.isnan(struct.unpack("<d", struct.pack("<Q", STALE))[0])
    assert all(found[key("up", "b")][0] == bits(1.0) for found in seen)


def test_a_node_that_is_gone_ends_with_all_its_series() -> None:
    encoder = SeriesEncoder()
    encoder.encode([family("up", a=1.0, b=1.0), family("x", a=1.0, b=2.0)], ["a", "b"], 1.0)
    assert decode(encoder.end_round(["a", "b"], 2.0)) == {}
    encoder.encode([family("up", a=1.0)], ["a"], 3.0)
    ended = decode(encoder.end_round(["a"], 4.0))
    assert {name: value for name, (value, _) in ended.items()} == {
        key("up", "b"): STALE,
        key("x", "b"): STALE,
    }
    assert encoder.end_round(["a"], 5.0) == []
    assert encoder._subjects.keys() == {'node="a",node_id="a"'}


def test_a_label_that_changes_ends_one_series_and_begins_another_in_the_same_message() -> None:
    encoder = SeriesEncoder()

    def state(name: str) -> Family:
        labels = f'node_id="a",state="{name}"'
        return Metric("state", lambda one: one, ""), [(labels, 1)]

    encoder.encode([state("busy")], ["a"], 1.0)
    changed = decode(encoder.encode([state("held")], ["a"], 2.0))
    assert {dict(names)["state"]: value for names, (value, _) in changed.items()} == {
        "held": bits(1.0),
        "busy": STALE,
    }
