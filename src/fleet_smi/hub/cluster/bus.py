"""The message bus between hubs: a NATS connection that comes back by itself.

Nothing on it is durable. What a hub misses while it is away is sent again whole, so that NATS
needs neither a disk nor JetStream.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.errors import Unreachable
from fleet_smi.extras import missing_extra
from fleet_smi.failure_log import FailureLog

if TYPE_CHECKING:
    from nats.aio.msg import Msg

logger = logging.getLogger(__name__)
_RETRY_SECONDS, _CONNECT_SECONDS = 0.5, 2
# Two unanswered pings are a lost connection: a split network is noticed within seconds.
_PING_SECONDS, _MAX_PINGS = 2, 2
_REQUEST_SECONDS = 3.0
_MAX_CANCELS, _CANCEL_SECONDS = 20, 0.1
# Requests that are being answered; more than these are dropped, and time out.
_MAX_REQUESTS = 200

MessageHandler = Callable[[bytes], None]
RequestHandler = Callable[[bytes], Awaitable[bytes | None]]


class MessageBus:
    """Publishes and receives while it is connected; what is published meanwhile is dropped."""

    def __init__(
        self, servers: Sequence[str], name: str, token: str | None = None, *, is_open: bool = False
    ) -> None:
        try:
            from nats.aio.client import Client
        except ImportError:
            raise missing_extra("cluster", "a cluster of hubs") from None
        self._client = Client()
        self._servers = list(servers)
        self._name = name
        self._token = token
        self._is_open = is_open
        self._answers: set[asyncio.Task[None]] = set()
        self._failures = FailureLog(logger, "nats")
        self._error = "connecting"
        self.on_connected: Callable[[], None] = lambda: None
        """Is called after each connect: others may have missed what was published before."""

    @property
    def is_connected(self) -> bool:
        """Whether other hubs can be heard."""
        return bool(self._client.is_connected)

    @property
    def error(self) -> str | None:
        """Why there is no connection; `None` while there is one."""
        where = ", ".join(urlsplit(server).netloc.rpartition("@")[2] for server in self._servers)
        return None if self.is_connected else f"{where}: {self._error}"

    @property
    def warning(self) -> str | None:
        """Why the connection is not safe; `None` if it is."""
        url = self._client.connected_url if self.is_connected else None
        if self._is_open or url is None or is_loopback(url.hostname or ""):
            return None
        if self._client._server_info.get("auth_required"):
            return None
        return f"NATS at {url.netloc.rpartition('@')[2]} lets everybody in: make it require a token"

    async def run(
        self,
        broadcasts: str,
        on_message: MessageHandler,
        requests: str,
        on_request: RequestHandler,
    ) -> None:
        """Connect, and pass on what arrives at these subjects, until cancelled."""

        async def handle_message(message: "Msg") -> None:
            on_message(message.data)

        async def answer(message: "Msg") -> None:
            try:
                response = await on_request(message.data)
                if message.reply and response is not None:
                    await message.respond(response)
            except Exception as error:  # noqa: BLE001  # of one request, whoever sent it
                self._failures.record_failure(error)

        async def handle_request(message: "Msg") -> None:
            # In a task: one that takes long must not delay the others.
            if len(self._answers) < _MAX_REQUESTS:
                task = asyncio.create_task(answer(message))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)

        # In a task of its own: it may swallow a cancellation, and retries for ever.
        connecting = asyncio.create_task(self._connect())
        try:
            await asyncio.wait({connecting})
            connecting.result()
            # One subscription for all broadcasts: they arrive in the order in which they were sent.
            await self._client.subscribe(broadcasts, cb=handle_message)
            await self._client.subscribe(requests, cb=handle_request)
            await self._on_reconnected()
            await asyncio.Event().wait()
        finally:
            await _cancel(connecting)
            with contextlib.suppress(Exception):
                await self._client.close()

    async def _connect(self) -> None:
        """Connect; with endless attempts this returns only once there is a connection."""
        await self._client.connect(
            self._servers,
            name=self._name,
            token=self._token,
            no_echo=True,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            connect_timeout=_CONNECT_SECONDS,
            reconnect_time_wait=_RETRY_SECONDS,  # type: ignore[arg-type]  # any number
            max_reconnect_attempts=-1,
            ping_interval=_PING_SECONDS,
            max_outstanding_pings=_MAX_PINGS,
        )

    async def publish(self, subject: str, data: bytes) -> bool:
        """Publish a message; return false if there is no connection."""
        if not self.is_connected:
            return False
        try:
            await self._client.publish(subject, data)
        except Exception as error:  # noqa: BLE001  # of the connection, or a message that is too large
            self._failures.record_failure(error)
            return False
        return True

    async def flush(self) -> None:
        """Wait until what was published has left; give up after a moment."""
        if self.is_connected:
            with contextlib.suppress(Exception):
                await self._client.flush(1)

    async def request(self, subject: str, data: bytes) -> bytes:
        """Ask another hub; raise `Unreachable` if it does not answer."""
        if not self.is_connected:
            raise Unreachable(f"no connection to NATS ({self.error})")
        try:
            response = await self._client.request(subject, data, timeout=_REQUEST_SECONDS)
        except Exception as error:
            raise Unreachable(f"the hub of this node does not answer ({error})") from error
        return bytes(response.data)

    async def _on_error(self, error: Exception) -> None:
        self._error = str(error) or type(error).__name__
        self._failures.record_failure(error)

    async def _on_disconnected(self) -> None:
        self._error = "the connection was lost"

    async def _on_reconnected(self) -> None:
        self._failures.record_success()
        self.on_connected()


async def _cancel(task: "asyncio.Task[None]") -> None:
    """Cancel a task, and again if it swallows that; give up after some attempts."""
    for _ in range(_MAX_CANCELS):
        if task.done():
            break
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
