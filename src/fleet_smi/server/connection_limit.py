"""Limit of open connections, in total and per client address: the least recently used is closed.

Each connection takes a file descriptor, and a hub without any left answers nobody. Evicted are
those on which no response is pending, first the one whose last request was longest ago: an agent
or a page that is connected and busy stays so, however many idle connections a stranger opens.
"""

import asyncio
import resource
from collections import Counter, OrderedDict
from typing import Any, Protocol

from fleet_smi.config.ip_addresses import IpNetworks, rate_limit_key
from fleet_smi.server.timeouts import TimeoutProtocol

# Twice as many as a hub has nodes. Each takes some 20 KB.
_MAX_CONNECTIONS = 40_000
# For the database, logs, ssh and what else needs a descriptor.
_MIN_RESERVE = 256


def connection_limit() -> int:
    """Return how many connections there may be, after raising the limit of descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS * 5 // 4
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    available = wanted if soft == resource.RLIM_INFINITY else soft
    return min(_MAX_CONNECTIONS, available - max(_MIN_RESERVE, available // 8))


class Evictable(Protocol):
    """A connection that can be closed at once."""

    def evict(self) -> None:
        """Close it without waiting for the other end."""


class ConnectionTable:
    """The open connections of a server, by address; those without pending response are idle.

    One address may have three quarters of them. A trusted proxy has many clients: only the total
    counts for it.
    """

    def __init__(self, max_total: int, proxies: IpNetworks) -> None:
        self._max_total = max_total
        self._max_per_address = max(1, max_total * 3 // 4)
        self._proxies = proxies
        self._keys: dict[Evictable, str] = {}
        self._counts: Counter[str] = Counter()
        # The least recently used first, of all addresses and of each.
        self._idle: OrderedDict[Evictable, None] = OrderedDict()
        self._idle_by_key: dict[str, OrderedDict[Evictable, None]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, connection: Evictable, address: str) -> None:
        """Add a new connection; where there are too many, an idle one is evicted."""
        key = rate_limit_key(address)
        self._keys[connection] = key
        self._counts[key] += 1
        self.set_idle(connection)
        is_limited = self._counts[key] > self._max_per_address and address not in self._proxies
        if is_limited or len(self._keys) > self._max_total:
            # The new one itself is the last of them: it goes where none else is idle.
            idle = self._idle_by_key[key] if is_limited else self._idle
            evicted = next(iter(idle))
            self.remove(evicted)
            evicted.evict()

    def remove(self, connection: Evictable) -> None:
        """Remove a connection that is closed."""
        self.set_busy(connection)
        key = self._keys.pop(connection, None)
        if key is not None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def set_busy(self, connection: Evictable) -> None:
        """Note that a response is pending: it is not evicted."""
        if connection in self._idle:
            key = self._keys[connection]
            del self._idle[connection], self._idle_by_key[key][connection]
            if not self._idle_by_key[key]:
                del self._idle_by_key[key]

    def set_idle(self, connection: Evictable) -> None:
        """Note that a response is complete, which makes it the one used last."""
        key = self._keys.get(connection)
        if connection in self._idle and key is not None:
            self._idle.move_to_end(connection)
            self._idle_by_key[key].move_to_end(connection)
        elif key is not None:
            of_key = self._idle_by_key.setdefault(key, OrderedDict())
            for idle in (self._idle, of_key):
                idle[connection] = None


class ConnectionLimitProtocol(TimeoutProtocol):
    """uvicorn's HTTP protocol, with a place in the table of connections."""

    def __init__(self, *args: Any, connections: ConnectionTable, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the connection to the table."""
        super().connection_made(transport)
        self.table.add(self, "" if self.client is None else self.client[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove it from the table."""
        self.table.remove(self)
        super().connection_lost(exc)

    def on_message_complete(self) -> None:
        """Wait for the response of the app, unless it refused the request before its end."""
        super().on_message_complete()
        if not self.cycle.response_complete:
            self.table.set_busy(self)

    def on_response_complete(self) -> None:
        """The connection waits for its next request, or for the response to a pipelined one."""
        super().on_response_complete()
        if not self.pipeline:
            self.table.set_idle(self)

    def start_idle_timeout(self) -> None:
        """Close the connection unless the next request begins in time."""
        super().start_idle_timeout()
        self.table.set_idle(self)

    def evict(self) -> None:
        """Close it without waiting for the other end."""
        self.transport.abort()
