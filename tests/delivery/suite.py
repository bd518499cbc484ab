"""The promises of every transport, as one suite of tests that each transport runs through.

A test class inherits the suites whose operations its transports have, and gives them as the
fixture `transport`. Transports of other systems run the same suites from `tests/compat`.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import pytest

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.fleet.delivery import Source
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process, snapshot
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.machines import wait_until

NODE_ID = "0123456789abcdef0123456789abcdef"


def sample(number: int) -> Snapshot:
    """Two GPUs, alice on the first, whose load encodes the number in every format."""
    alice = process(4711, "alice", command="python train.py")
    return snapshot(
        gpu(0, busy_percent=10.0 * number, processes=(alice,)),
        gpu(1),
        taken_at=1_750_000_000.0 + number,
        sequence=number,
        node="gpu01",
        node_id=NODE_ID,
        run_id="0123456789abcdef",
        labels={"rack": "a"},
    )


class Transport(ABC):
    """Both real ends of one way from a node to the hub."""

    source: Source
    target: str
    version_error: ClassVar[type[DeliveryError]] = Undecodable
    """The error for a report of another version, where reports have one."""

    @abstractmethod
    def send(self, snapshot: Snapshot) -> None:
        """Send a snapshot from the node's end."""

    @abstractmethod
    def close(self) -> None:
        """Close the node's end; may be called twice."""

    @contextmanager
    def running(self, first: Snapshot) -> Iterator[RecordedDeliveries]:
        """Run the hub's end, with a first snapshot that it receives."""
        self.send(first)
        with run_source(self.source) as deliveries:
            yield deliveries

    def encode(self, value: object) -> bytes:
        """Encode a value in the syntax of this transport, as an ill-formed report."""
        return msgspec.msgpack.encode(value)

    def error_after(self, action: Callable[[], None]) -> DeliveryError:
        """Return the error that is delivered once `action` has broken the transport."""
        self.send(sample(1))
        action()
        with run_source(self.source) as deliveries:
            error = deliveries.wait_for_error()
            # A reader that hangs has to be released before its event loop can end.
            self.close()
        return error

    def concerns_peer(self, error: DeliveryError) -> bool:
        """Whether an error names the other end."""
        return error.node == self.target


class BreakableTransport(Transport):
    """A transport whose other end can disappear."""

    @abstractmethod
    def disconnect(self) -> None:
        """Take the other end away."""


class AuthenticatedTransport(BreakableTransport):
    """A transport on which access can be refused."""

    @abstractmethod
    def block_access(self) -> None:
        """Make the other end refuse access."""


class DeliverySuite:
    """What every transport promises."""

    def test_a_snapshot_arrives_with_its_gpus_and_processes(self, transport: Transport) -> None:
        with transport.running(sample(1)) as deliveries:
            got = deliveries.wait_for_load(10.0)
            delivery = next(each for each in deliveries.deliveries if each.result is got)
        assert (delivery.source, delivery.target) == (transport.source.name, transport.target)
        busy, idle = got.gpus
        sent = sample(1).gpus[0]
        assert (got.name, busy.name, busy.index) == ("gpu01", sent.name, 0)
        assert busy.temperature_celsius == sent.temperature_celsius
        assert [(one.pid, one.user) for one in busy.processes or ()] == [(4711, "alice")]
        assert idle.processes == ()

    def test_late_repeated_and_reordered_reports_are_harmless(self, transport: Transport) -> None:
        with transport.running(sample(1)) as deliveries:
            deliveries.wait_for_load(10.0)
            for number, times in ((3, 1), (2, 1), (3, 2), (4, 1)):
                transport.send(sample(number))
                deliveries.wait_for_load(10.0 * number, times)
        fleet = deliveries.fleet()
        (node,) = fleet.view(deliveries.last_received_at).nodes
        assert (node.missing_reports, node.silent, node.via) == (0, False, transport.source.name)
        assert node.gpus[0].busy_percent == 40.0
        assert [each.verdict.state for each in node.gpus] == ["busy", "free"]

    def test_closing_leaves_no_task_thread_process_or_descriptor(
        self, transport: Transport
    ) -> None:
        with transport.running(sample(1)) as deliveries:
            deliveries.wait_for_load(10.0)
        before = held_resources()
        with transport.running(sample(2)) as deliveries:
            deliveries.wait_for_load(20.0)
        # Less is fine: the other end may still have been closing when the first count was made.
        wait_until(lambda: all(n <= before[kind] for kind, n in held_resources().items()))


class DisconnectSuite:
    """What a transport promises whose other end can disappear."""

    def test_a_dead_peer_is_reported_as_unreachable(self, transport: BreakableTransport) -> None:
        error = transport.error_after(transport.disconnect)
        assert isinstance(error, Unreachable)
        assert transport.concerns_peer(error)


class RefusalSuite:
    """What a transport with authentication promises."""

    def test_a_refused_key_is_reported_as_refused(self, transport: AuthenticatedTransport) -> None:
        error = transport.error_after(transport.block_access)
        assert isinstance(error, Refused)
        assert transport.concerns_peer(error)


class RawTransport(Transport):
    """A transport that can carry bytes which are not a report."""

    @abstractmethod
    def send_raw(self, body: bytes) -> None:
        """Send these bytes from now on instead of a report."""


class GarbageSuite:
    """What a transport promises when it receives something else than a report."""

    @pytest.mark.parametrize("kind", ["garbage", "empty", "other version"])
    def test_what_is_not_a_report_is_reported_as_undecodable(
        self, transport: RawTransport, kind: Literal["garbage", "empty", "other version"]
    ) -> None:
        body = {
            "garbage": b"{ this is no report",
            "empty": transport.encode({}),
            "other version": transport.encode({"version": 2, "snapshots": []}),
        }[kind]
        with transport.running(sample(1)) as deliveries:
            deliveries.wait_for_load(10.0)
            transport.send_raw(body)
            # By its kind: while one server replaces another, the peer may be unreachable.
            expected = transport.version_error if "version" in kind else Undecodable
            error = deliveries.wait_for_error(expected)
        assert type(error) is expected
        assert error.node == transport.target
        assert transport.target in str(error)


Resource = Literal["threads", "descriptors", "children"]


def held_resources() -> dict[Resource, int]:
    """Count what this process holds and a closed source must have given back."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "threads": threading.active_count(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "children": len(children),
    }


__all__ = [
    "AuthenticatedTransport",
    "BreakableTransport",
    "DeliverySuite",
    "DisconnectSuite",
    "GarbageSuite",
    "RawTransport",
    "RecordedDeliveries",
    "RefusalSuite",
    "Transport",
    "held_resources",
    "sample",
]
