"""Prometheus remote write 1.0: samples as protobuf messages, with stale markers for what ends.

The message is small and of a fixed shape, so it is encoded by hand: the labels of a series are
encoded once and joined with each new value, and no library has to be installed for it. Names and
labels are those of `wire/prometheus.py`.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from fleet_smi.wire.prometheus import MAX_VALUE, Family, LabelledSubjects

MAX_SAMPLES = 10_000
"""A message ends after the metric with which it has as many."""
_NAME_LABEL = "__name__"
_NODE_LABEL = "node_id"
# Field 2 of a series: a sample of 16 bytes, of which field 1 is the value, a double.
_SAMPLE_HEAD = b"\x12\x10\x09"
# Within these a time is a varint of 6 bytes, as the length in the head says: 1971 to 2109.
_FIRST_MS, _LAST_MS = 1 << 35, (1 << 42) - 1
# The NaN that ends a series. It is packed as an integer: a float may lose its payload.
_STALE = struct.pack("<Q", 0x7FF0000000000002)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_pack_double = struct.Struct("<d").pack


class Message(NamedTuple):
    """A `WriteRequest`, not yet compressed, and the number of its samples."""

    body: bytes
    samples: int


class _Subject:
    """What was sent of one set of labels: one bit per metric."""

    __slots__ = ("labels", "sent", "sent_before")

    def __init__(self, labels: bytes) -> None:
        self.labels = labels + _SAMPLE_HEAD
        self.sent = self.sent_before = 0


class SeriesEncoder:
    """Encodes the samples of one fleet, round by round.

    In a round every node is encoded once, and the fleet itself. A series that had a sample in the
    last round and has none in this one gets a stale marker, so that queries stop showing it.
    """

    def __init__(self, extra_labels: Mapping[str, str] | None = None) -> None:
        """`extra_labels` are added to every series that has no such label of its own."""
        self._extra = dict(extra_labels or {})
        # Labels are sorted by name, and only a name in capitals comes before `__name__`.
        self._head = _encode_labels({k: v for k, v in self._extra.items() if k < _NAME_LABEL})
        self._metrics: list[bytes] = []
        self._metric_numbers: dict[str, int] = {}
        self._subjects: dict[str, _Subject] = {}
        self._labels_by_node: dict[str, list[str]] = {}

    def encode(
        self, families: Iterable[Family], node_ids: Iterable[str], at: float
    ) -> list[Message]:
        """Encode the samples of these nodes at a time, as messages of a limited size.

        The node id of what belongs to the whole fleet is "".
        """
        message, resolved = (
            _MessageBuilder(at),
            dict[int, tuple[LabelledSubjects, list[_Subject]]](),
        )
        for metric, subjects in families:
            if id(subjects) not in resolved:
                # With the list itself, so that its id is not used again.
                resolved[id(subjects)] = subjects, [self._subject(text) for text, _ in subjects]
            number, read = self._metric_number(metric.name), metric.read
            samples = [
                (subject, value)
                for subject, (_, source) in zip(resolved[id(subjects)][1], subjects, strict=True)
                if (value := read(source)) is not None and -MAX_VALUE < value < MAX_VALUE
            ]
            message.add(self._metrics[number], samples)
            for subject, _ in samples:
                subject.sent |= 1 << number
        for node_id in node_ids:
            self._mark_stale(message, node_id)
        return message.finish()

    def end_round(self, node_ids: Iterable[str], at: float) -> list[Message]:
        """End the series of all nodes but these, which are those of the round."""
        message = _MessageBuilder(at)
        for node_id in self._labels_by_node.keys() - set(node_ids) - {""}:
            self._mark_stale(message, node_id)
        return message.finish()

    def _mark_stale(self, message: "_MessageBuilder", node_id: str) -> None:
        kept = []
        for text in self._labels_by_node.get(node_id, ()):
            subject = self._subjects[text]
            if ended := subject.sent_before & ~subject.sent:
                for name in self._names(ended):
                    message.add(name, [(subject, None)])
            if subject.sent:
                kept.append(text)
            else:
                del self._subjects[text]
            subject.sent_before, subject.sent = subject.sent, 0
        if kept:
            self._labels_by_node[node_id] = kept
        else:
            self._labels_by_node.pop(node_id, None)

    def _names(self, bits: int) -> Iterator[bytes]:
        return (name for number, name in enumerate(self._metrics) if bits >> number & 1)

    def _metric_number(self, name: str) -> int:
        number = self._metric_numbers.setdefault(name, len(self._metrics))
        if number == len(self._metrics):
            self._metrics.append(self._head + _encode_labels({_NAME_LABEL: name}))
        return number

    def _subject(self, text: str) -> _Subject:
        subject = self._subjects.get(text)
        if subject is None:
            own = parse_labels(text)
            after_name = {k: v for k, v in {**self._extra, **own}.items() if k > _NAME_LABEL}
            subject = self._subjects[text] = _Subject(_encode_labels(after_name))
            self._labels_by_node.setdefault(own.get(_NODE_LABEL, ""), []).append(text)
        return subject


class _MessageBuilder:
    """Builds messages of series that each have one sample, all of one time."""

    def __init__(self, at: float) -> None:
        self._time = b"\x10" + _varint(min(max(_FIRST_MS, round(at * 1000)), _LAST_MS))
        self._sample_bytes = 8 + len(self._time)
        self._parts: list[bytes] = []
        self._samples = 0
        self._done: list[Message] = []

    def add(self, name: bytes, samples: Sequence[tuple[_Subject, float | None]]) -> None:
        """Add a series of one sample for each subject; `None` ends the series."""
        length, parts, time = len(name) + self._sample_bytes, self._parts, self._time
        for subject, value in samples:
            labels = subject.labels
            double = _STALE if value is None else _pack_double(value)
            parts += (_series_head(length + len(labels)), name, labels, double, time)
        self._samples += len(samples)
        if self._samples >= MAX_SAMPLES:
            self._end_message()

    def finish(self) -> list[Message]:
        """Return the messages."""
        if self._samples:
            self._end_message()
        return self._done

    def _end_message(self) -> None:
        self._done.append(Message(b"".join(self._parts), self._samples))
        self._parts, self._samples = [], 0


def parse_labels(text: str) -> dict[str, str]:
    """Parse the labels of the text format; empty ones are left out, as if absent."""
    found = ((name, _ESCAPED.sub(r"\1", value)) for name, value in _LABEL.findall(text))
    return {name: value for name, value in found if value}


def _encode_labels(labels: Mapping[str, str]) -> bytes:
    return b"".join(
        [
            b"\x0a" + _with_length(_text_field(b"\x0a", name) + _text_field(b"\x12", value))
            for name, value in sorted(labels.items())
        ]
    )


def _text_field(tag: bytes, text: str) -> bytes:
    return tag + _with_length(text.encode("utf-8", "replace"))


def _with_length(data: bytes) -> bytes:
    return _varint(len(data)) + data


@lru_cache(maxsize=8192)
def _series_head(length: int) -> bytes:
    return b"\x0a" + _varint(length)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
