"""Rate limit of refused requests per client address: beyond it, answers are late and the last.

A refused request costs the hub nearly as much as a good one, so a sender of garbage or of a wrong
credential could keep it busy. Requests that are not refused are never delayed, wherever they come
from: a laboratory may share one address with the machine that has the wrong credential.

The rest of a request that is already answered is received and discarded, so that its sender reads
the answer and can go on; beyond a number of bytes its connection is closed instead.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from fleet_smi.config.ip_addresses import rate_limit_key
from fleet_smi.model.token_bucket import TokenBucket
from fleet_smi.server.middleware import AsgiApp, Message, Receive, Send

# More than a laboratory has machines that could all be refused after one mistake.
_BURST, _PER_SECOND = 300, 20
_DELAY_SECONDS = 5.0
# Answers of one address that wait at the same time; each keeps a connection.
_MAX_HELD = 64
# Several of the largest reports at once; to receive more would keep the event loop from all others.
_DISCARD_BURST_BYTES, _DISCARD_BYTES_PER_SECOND = 64 << 20, 4 << 20
_MAX_KEYS = 1 << 14
_REFUSED = range(400, 500)
CLOSE = (b"connection", b"close")
"""The header of an answer that is the last on its connection."""


class HeldAnswer(NamedTuple):
    """An answer that is written later, to this address."""

    timer: asyncio.TimerHandle
    address: str


class RefusalLimiter:
    """Counts the refused requests of each address."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = TokenBucket(
            burst=_BURST, refill_seconds=1 / _PER_SECOND, max_keys=_MAX_KEYS
        )
        self._discards = TokenBucket(
            burst=_DISCARD_BURST_BYTES,
            refill_seconds=1 / _DISCARD_BYTES_PER_SECOND,
            max_keys=_MAX_KEYS,
        )
        self._held: Counter[str] = Counter()

    def hold(self, address: str) -> float | None:
        """Count one refused request; `None` if it can be answered like any other.

        Else return for how many seconds its answer is to be held, after which the connection is
        closed; call `release` then.
        """
        key = rate_limit_key(address)
        if not self._buckets.acquire(key, self._clock()):
            return None
        self._held[key] += 1
        return _DELAY_SECONDS if self._held[key] <= _MAX_HELD else 0.0

    def release(self, address: str) -> None:
        """Note that an answer is no longer held."""
        key = rate_limit_key(address)
        self._held[key] -= 1
        if self._held[key] <= 0:
            del self._held[key]

    def may_discard(self, address: str, size: int) -> bool:
        """Count bytes that nobody reads; whether their sender may send more of them."""
        key, now = rate_limit_key(address), self._clock()
        if self._discards.seconds_until(key, size, now):
            return False
        self._discards.spend(key, size, now)
        return True

    async def wait(self, address: str) -> bool:
        """Count one refused request and hold its answer; whether to close the connection then."""
        seconds = self.hold(address)
        if seconds is None:
            return False
        try:
            await asyncio.sleep(seconds)
        finally:
            self.release(address)
        return True


class RefusalMiddleware:
    """ASGI middleware that holds the answers of an address that is refused too often."""

    def __init__(
        self, app: AsgiApp, limiter: RefusalLimiter, client_address: Callable[[Message], str]
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._client_address = client_address

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def send_limited(message: Message) -> None:
            is_refusal = message["type"] == "http.response.start" and message["status"] in _REFUSED
            if is_refusal and await self._limiter.wait(self._client_address(scope)):
                message["headers"] = [*message.get("headers", ()), CLOSE]
            await send(message)

        await self._app(scope, receive, send_limited)
