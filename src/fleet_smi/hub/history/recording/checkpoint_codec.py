"""Checkpoint codec: the open state of one node, encoded as msgpack; older versions are readable."""

import msgspec
from msgspec import Struct

from fleet_smi.hub.history.recording.ledger_state import LedgerState, move_columns
from fleet_smi.hub.history.series.sample_format import (
    CURRENT_COLUMNS,
    FIRST_COLUMNS,
    LEADING_COLUMNS,
    SampleColumns,
    column_positions,
    convert_samples,
)

STATE_VERSION = 5
_READABLE_VERSIONS = (1, 2, 3, 4, STATE_VERSION)
_ENCODED_NONE = msgspec.msgpack.encode(None)


class NodeRecorderState(Struct, kw_only=True, array_like=True):
    """The open state of a node, as encoded in a checkpoint; finished rows are stored elsewhere.

    Encoded by position: a new field must come last, with a default.
    """

    version: int
    last_report_at: float
    accounted_until: float
    interval_seconds: float | None
    silent: bool
    uuids: tuple[str, ...]
    samples: bytes
    ledger: LedgerState
    # Versions 1 and 2 had the rows of an unfinished rollup here. These are read from the database
    # now; the field stays because the ones after it are found by position.
    unused: msgspec.Raw = msgspec.Raw(_ENCODED_NONE)
    runs: dict[str | None, int] = {}
    columns: SampleColumns = FIRST_COLUMNS
    leading: tuple[str, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(NodeRecorderState)


def encode_state(state: NodeRecorderState) -> bytes:
    """Encode the state of a node for its checkpoint."""
    return _encoder.encode(state)


def decode_state(data: bytes) -> NodeRecorderState:
    """Decode a checkpoint, with samples as buffered today; raise `ValueError` if unreadable."""
    state = _decoder.decode(data)
    if state.version not in _READABLE_VERSIONS:
        raise ValueError(f"unknown checkpoint version {state.version}")
    gpu_count = len(state.uuids)
    if (state.columns, state.leading) != (CURRENT_COLUMNS, LEADING_COLUMNS):
        state.samples = convert_samples(state.samples, state.columns, state.leading, gpu_count)
    if state.columns != CURRENT_COLUMNS:
        # Another version recorded other figures. Open intervals refer to columns by position, so
        # they must move with the samples, else load would be read as, say, power.
        move_columns(state.ledger, column_positions(state.columns, gpu_count))
    return state
