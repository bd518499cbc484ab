"""The `push` source: reports that agents send to the hub's HTTP server, which creates it."""

import asyncio
from collections.abc import Sequence

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, with_default_interval
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.wire.report import Report


class PushSource:
    """Delivers what the server receives; it polls nothing."""

    name = "push"
    targets: Sequence[str] = ()

    def __init__(self) -> None:
        self._deliver: DeliverCallback | None = None

    async def poll(self) -> Sequence[Delivery]:
        """Return nothing: agents connect to the hub, not the hub to them."""
        return ()

    async def run(self, deliver: DeliverCallback) -> None:
        """Deliver received reports until cancelled."""
        self._deliver = deliver
        try:
            await asyncio.Event().wait()
        finally:
            self._deliver = None

    @property
    def is_running(self) -> bool:
        """Whether reports that are received now are delivered."""
        return self._deliver is not None

    def receive(self, report: Report, address: str = "") -> None:
        """Deliver every snapshot of a report from an address, the oldest first."""
        remote = remote_address(address)
        for snapshot in report.snapshots:
            self._deliver_if_running(
                Delivery(
                    source=self.name,
                    target=snapshot.node_id,
                    result=with_default_interval(snapshot),
                    age_seconds=report.age_seconds(snapshot),
                    id_origin="credential",
                    address=remote,
                    is_limited=True,
                )
            )

    def receive_figures(
        self, base: Snapshot, figures: SnapshotFigures, age_seconds: float, address: str = ""
    ) -> None:
        """Deliver the figures of a node whose latest sample differs from them in nothing else."""
        self._deliver_if_running(
            Delivery(
                source=self.name,
                target=base.node_id,
                result=base,
                figures=figures,
                age_seconds=age_seconds,
                id_origin="credential",
                address=remote_address(address),
                is_limited=True,
            )
        )

    def reject(self, node_id: str, error: DeliveryError) -> None:
        """Deliver the failure of a known node whose report cannot be decoded."""
        failure = type(error)(error.message, node_id)
        self._deliver_if_running(Delivery(source=self.name, target=node_id, result=failure))

    def _deliver_if_running(self, delivery: Delivery) -> None:
        if self._deliver is not None:
            self._deliver(delivery)
