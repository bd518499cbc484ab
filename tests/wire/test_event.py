"""Events of the stream: framing, compression and diffs."""

import json
import zlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.safe_text import is_safe_text, sanitize_text
from fleet_smi.model.stream_payload import DeviceFigures, FleetPayload, NodeFigures, NodePayload
from fleet_smi.model.views import summarize_nodes
from fleet_smi.wire.event import (
    GZIP_HEADER,
    StreamUpdate,
    diff_figures,
    encode_event,
    format_event_id,
    gzip_block,
    parse_event_id,
)
from fleet_smi.wire.event_reader import apply_event, decode_event
from tests.builders import NOON

figure = st.none() | st.integers(0, 3)
row = st.builds(DeviceFigures, figure, figure, figure, figure)


def node(number: int = 1, name: str = "gpu01") -> NodePayload:
    return NodePayload(number=number, node_id=f"id-{number}", name=name)


def news(**fields: Any) -> StreamUpdate:
    nothing: dict[str, Any] = {"summary": summarize_nodes(()), "nodes": (), "figures": ()}
    return StreamUpdate(**(nothing | fields))


def data_of(frame: bytes) -> bytes:
    """The data of one frame, read as the standard says: by lines."""
    lines = frame.decode().split("\n")
    assert lines[-2:] == ["", ""]
    fields = dict(line.split(": ", 1) for line in lines[:-2])
    assert set(fields) == {"id", "event", "data"}
    return fields["data"].encode()


def seen(update: StreamUpdate, fleet: FleetPayload | None = None) -> FleetPayload:
    """What a listener knows after one more event."""
    return apply_event(fleet, decode_event(data_of(encode_event("change", "a-1", NOON, update))))


def test_an_event_is_three_lines_and_a_blank_one() -> None:
    frame = encode_event("fleet", "a-1", NOON + 0.12345, news(nodes=(node(),)))
    assert frame.startswith(b"id: a-1\nevent: fleet\ndata: {")
    document = json.loads(data_of(frame))
    assert list(document) == ["taken_at", "summary", "nodes", "removed", "figures"]
    assert document["taken_at"] == NOON + 0.123
    assert document["nodes"][0]["name"] == "gpu01"


@given(st.text())
def test_no_name_breaks_the_framing(name: str) -> None:
    update = news(nodes=(node(name=name.encode(errors="ignore").decode()),))
    (sent,), (received,) = update.nodes, seen(update).nodes.values()
    printable = sent.name if is_safe_text(sent.name) else sanitize_text(sent.name, len(name))
    assert received == replace(sent, name=printable)


def test_figures_are_rows_in_a_fixed_order() -> None:
    whole = NodeFigures(7, 1_750_000_000, 53, None, (DeviceFigures(96, 71026, 65, 365),))
    document = json.loads(data_of(encode_event("fleet", "a-1", NOON, news(figures=(whole,)))))
    assert document["figures"] == [[7, 1_750_000_000, 53, None, [[96, 71026, 65, 365]]]]


def test_a_diff_repeats_no_figure_and_distinguishes_unknown_from_unchanged() -> None:
    before = NodeFigures(
        7, 10, 53, 40, (DeviceFigures(96, 71026, 65, 365), DeviceFigures(0, 4, 33, 71))
    )
    after = NodeFigures(
        7, 11, 53, 41, (DeviceFigures(95, 71026, None, 365), DeviceFigures(0, 4, 33, 71))
    )
    frame = encode_event("change", "a-2", NOON, news(figures=(diff_figures(before, after),)))
    rows = json.loads(data_of(frame))["figures"]
    assert rows == [[7, 11, "=", 41, [[95, "=", None, "="], "="]]]


@given(st.lists(st.tuples(row, row), max_size=4), row, row)
def test_figures_with_their_diff_applied_give_the_later_figures(
    pairs: list[tuple[DeviceFigures, DeviceFigures]], one: DeviceFigures, other: DeviceFigures
) -> None:
    parts = tuple([old for old, _ in pairs]), tuple([new for _, new in pairs])
    before = NodeFigures(1, 10, one.busy_percent, one.power_watts, parts[0])
    after = NodeFigures(1, None, other.busy_percent, other.power_watts, parts[1])
    known = seen(news(nodes=(node(),), figures=(before,)))
    assert known.figures == {1: before}
    assert seen(news(figures=(diff_figures(before, after),)), known).figures == {1: after}


def test_removed_nodes_are_dropped_with_their_figures() -> None:
    rows = (NodeFigures(1, 10, 1, 1, ()), NodeFigures(2, 10, 1, 1, ()))
    known = seen(news(nodes=(node(1), node(2)), figures=rows))
    left = seen(news(removed=(1, 99)), known)
    assert set(left.nodes) == set(left.figures) == {2}
    assert set(known.nodes) == {1, 2}


def test_a_diff_without_a_base_leaves_figures_unknown() -> None:
    before = NodeFigures(
        7, 10, 53, 40, (DeviceFigures(96, 71026, 65, 365), DeviceFigures(0, 4, 33, 71))
    )
    after = NodeFigures(
        7, 11, 53, 40, (DeviceFigures(95, 71026, 65, 365), DeviceFigures(0, 4, 33, 71))
    )
    lost = seen(news(figures=(diff_figures(before, after),)))
    unknown = DeviceFigures(None, None, None, None)
    assert lost.figures == {
        7: NodeFigures(7, 11, None, None, (DeviceFigures(95, None, None, None), unknown))
    }


def test_an_event_id_is_valid_only_in_its_epoch() -> None:
    assert parse_event_id(format_event_id("abc-1", 42), "abc-1") == 42
    for other in (
        "abd-1-42",
        "abc-1-",
        "abc-1",
        "42",
        "",
        "abc-1-4²",
        "abc-1--4",
        "abc-1-" + "9" * 99,
    ):
        assert parse_event_id(other, "abc-1") is None


@given(st.lists(st.binary(max_size=300), max_size=6), st.data())
def test_a_block_can_be_appended_to_any_gzip_stream(
    chunks: list[bytes], data: st.DataObject
) -> None:
    blocks = [gzip_block(chunk) for chunk in chunks]
    start = data.draw(st.integers(0, len(chunks)))
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    read = [reader.decompress(part) for part in (GZIP_HEADER, *blocks[start:])]
    assert read[1:] == chunks[start:]
