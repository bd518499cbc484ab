"""A sample in the buffer: a snapshot that is encoded only when it is sent in full or stored."""

from typing import TYPE_CHECKING

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import encode_snapshot

if TYPE_CHECKING:
    from typing_extensions import Self


class BufferedSample:
    """One snapshot, identified by the agent's run and its sequence number.

    Most are reported in a compact form and called durable soon after: they are never encoded.
    """

    __slots__ = ("_data", "run_id", "sequence", "size_bytes", "snapshot")

    def __init__(self, run_id: str | None, sequence: int, data: bytes) -> None:
        self.run_id = run_id
        self.sequence = sequence
        self.size_bytes = len(data)
        """The size as bytes; expected, while it is not encoded."""
        self.snapshot: Snapshot | None = None
        """The snapshot itself, until it is encoded."""
        self._data: bytes | None = data

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, expected_bytes: int) -> "Self":
        """Return a sample that is not encoded yet."""
        sample = cls(snapshot.run_id, snapshot.sequence, b"")
        sample.snapshot, sample._data, sample.size_bytes = snapshot, None, expected_bytes
        return sample

    @property
    def data(self) -> bytes:
        """The encoded snapshot."""
        snapshot, data = self.snapshot, self._data
        if data is None and snapshot is not None:
            # In this order: the other thread of an outlet may be reading it, too.
            data = self._data = encode_snapshot(snapshot)
            self.snapshot, self.size_bytes = None, len(data)
        return data or b""
