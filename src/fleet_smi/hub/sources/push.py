"""The hub's end of `push`: reports that nodes send by themselves."""

import asyncio
from collections.abc import Sequence

from fleet_smi.errors import DeliveryError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, with_default_interval
from fleet_smi.wire.report import Report


class PushSource:
    """Hands on what the server was sent; it asks nobody."""

    name = "push"
    targets: Sequence[str] = ()

    def __init__(self) -> None:
        self._deliver: DeliverCallback | None = None

    async def poll(self) -> Sequence[Delivery]:
        """Nobody can be asked."""
        return ()

    async def run(self, deliver: DeliverCallback) -> None:
        """Hand on until cancelled."""
        self._deliver = deliver
        try:
            await asyncio.Event().wait()
        finally:
            self._deliver = None

    @property
    def is_running(self) -> bool:
        """Whether what is received now is handed on."""
        return self._deliver is not None

    def receive(self, report: Report) -> None:
        """Take one report in; the oldest snapshot first, as the node lived it."""
        for snapshot in report.snapshots:
            self._hand_on(
                Delivery(
                    source=self.name,
                    target=snapshot.node_id,
                    result=with_default_interval(snapshot),
                    age_seconds=report.age_seconds(snapshot),
                )
            )

    def reject(self, node_id: str, error: DeliveryError) -> None:
        """Tell that a known node sent what cannot be taken."""
        named = type(error)(error.message, node_id)
        self._hand_on(Delivery(source=self.name, target=node_id, result=named))

    def _hand_on(self, delivery: Delivery) -> None:
        if self._deliver is not None:
            self._deliver(delivery)
