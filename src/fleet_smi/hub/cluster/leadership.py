"""Leadership: one hub of a cluster does what must be done once for all, by a lease.

PostgreSQL keeps the lease, by its own clock: the hubs' clocks do not matter, and a hub that hangs
loses it. Work that writes there can check the lease in its own transaction (`holds`).
"""

import asyncio
import logging
import time

from sqlalchemy import Connection, text

from fleet_smi.errors import StateError
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.cluster.state_database import SharedState, quoted
from fleet_smi.hub.database import write_transaction
from fleet_smi.hub.sources.polling import ticks

logger = logging.getLogger(__name__)


class Leadership:
    """The lease of one name, which one hub holds at a time.

    leadership = Leadership(state, "retention", hub_id)
    …  # `await leadership.run()` beside the rest
    if leadership.is_leader:
        delete_old_rows()
    """

    def __init__(
        self, state: SharedState, name: str, hub: str, *, lease_seconds: float = 6.0
    ) -> None:
        self._engine = state.engine
        self._lease_seconds = lease_seconds
        self._valid_until = 0.0
        self._failures = FailureLog(logger, f"lease {name}")
        self._values = {"name": name, "hub": hub, "seconds": lease_seconds}
        table = f"{quoted(state.schema)}.leases"
        # Compare and set in one statement: it changes no row where another hub holds the lease.
        self._take = text(
            f"INSERT INTO {table} (name, hub, epoch, expires_at)"  # noqa: S608  # our own schema
            " VALUES (:name, :hub, 1, now() + :seconds * interval '1 second')"
            " ON CONFLICT (name) DO UPDATE SET hub = excluded.hub,"
            " expires_at = excluded.expires_at,"
            " epoch = leases.epoch + (leases.hub <> excluded.hub)::int"
            " WHERE leases.hub = excluded.hub OR leases.expires_at < now() RETURNING epoch"
        )
        self._release = text(
            f"UPDATE {table} SET expires_at = now() WHERE name = :name AND hub = :hub"  # noqa: S608
        )
        self._holds = text(
            f"SELECT 1 FROM {table} WHERE name = :name AND hub = :hub"  # noqa: S608
            " AND expires_at > now() FOR SHARE"
        )

    @property
    def is_leader(self) -> bool:
        """Whether this hub holds the lease now, as far as it knows."""
        return time.monotonic() < self._valid_until

    async def run(self) -> None:
        """Take the lease when it is free and renew it, until cancelled; then give it back."""
        try:
            async for _ in ticks(self._lease_seconds / 3):
                await asyncio.to_thread(self.renew)
        finally:
            if self.is_leader:
                self._valid_until = 0.0
                await asyncio.shield(asyncio.to_thread(self._give_back))

    def renew(self) -> bool:
        """Take or renew the lease; return whether this hub holds it. Blocking."""
        # Measured from before the request: the lease ends here no later than in the database.
        began = time.monotonic()
        try:
            with write_transaction(self._engine) as connection:
                is_held = connection.execute(self._take, self._values).first() is not None
        except StateError as error:
            self._failures.record_failure(error)
            return self.is_leader
        self._failures.record_success()
        self._valid_until = began + self._lease_seconds if is_held else 0.0
        return is_held

    def holds(self, connection: Connection) -> bool:
        """Whether this hub holds the lease; it cannot pass on before the transaction ends."""
        return connection.execute(self._holds, self._values).first() is not None

    def _give_back(self) -> None:
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(self._release, self._values)
        except StateError as error:
            self._failures.record_failure(error)  # it expires
