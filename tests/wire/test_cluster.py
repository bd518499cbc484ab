"""Messages between hubs: there and back, and hostile ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from fleet_smi.errors import Undecodable
from fleet_smi.model.fleet import NodeView
from fleet_smi.wire.cluster import (
    BriefNode,
    Changes,
    FigureRow,
    HubPresence,
    NodeUpdate,
    decode_brief,
    decode_message,
    diff_rows,
    encode_brief,
    encode_message,
)

ROWS = st.lists(
    st.builds(FigureRow, st.none() | st.floats(0, 100), st.none() | st.integers(0, 1 << 40)),
    max_size=6,
)


@given(st.lists(st.integers(0, 1 << 31), max_size=400), ROWS)
def test_changes_come_back_as_they_were_sent(numbers: list[int], rows: list[FigureRow]) -> None:
    view = NodeView(node_id="a", name="a", taken_at=1.0, age_seconds=0.5)
    message = Changes(
        "hub",
        "run",
        7,
        (encode_brief(BriefNode(1, 2, view)),),
        tuple(NodeUpdate(number, 0.1, tuple(rows)) for number in numbers),
    )
    decoded = decode_message(encode_message(message))
    assert isinstance(decoded, Changes)
    assert (decoded.updates, decoded.sequence) == (message.updates, 7)
    assert decode_brief(decoded.nodes[0]).view == view
    presence = HubPresence(hub="h", instance="i", name="n", now=1.0, sequence=len(numbers))
    assert decode_message(encode_message(presence)) == presence


@given(ROWS)
def test_unchanged_rows_are_not_sent(rows: list[FigureRow]) -> None:
    assert diff_rows(rows, rows) == (None,) * len(rows)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_undecodable(data: bytes) -> None:
    for body in (data, b"\x00" + data, b"\x01" + data):
        with pytest.raises(Undecodable):
            decode_message(body)
    with pytest.raises(Undecodable):
        decode_brief(Raw(data))
