"""The hub's end of `nvgpu`: machines on which an agent of nvgpu runs."""

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from fleet_smi.compat.duplicate_ids import DuplicateIdResolver
from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.config import Settings
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.hub.http_polling import HttpPoller, PollRequest

DEFAULT_PORT = 1080
_REFUSED = "wants a token, which agents of nvgpu do not know: is it an agent of fleet-smi?"
_BROKEN = "failed (status 500): nvgpu 0.10 always does, and any version where a GPU is lost"


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls the agents named in `hub.nvgpu`."""
    return [NvgpuSource(settings.hub.nvgpu, interval_seconds=settings.hub.nvgpu_interval)]


class NvgpuSource:
    """Asks many agents at once, each with its own deadline."""

    name = "nvgpu"

    def __init__(
        self,
        targets: Sequence[str],
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.targets = tuple(targets)
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._namesakes = DuplicateIdResolver()
        question = PollRequest(
            path="/gpu_status",
            default_port=DEFAULT_PORT,
            refusal_messages={401: _REFUSED, 403: _REFUSED},
            failure_messages={500: _BROKEN},
        )
        self._agents = HttpPoller(self.name, targets, question, self._delivery, timeout_seconds)

    async def poll(self) -> Sequence[Delivery]:
        """Ask every agent once."""
        return await self._agents.poll_once()

    async def run(self, deliver: DeliverCallback) -> None:
        """Ask every agent on its own ticks until cancelled."""
        await self._agents.poll_until_cancelled(deliver, self._interval_seconds)

    def _delivery(self, target: str, body: bytes) -> Delivery:
        snapshot = self._namesakes.disambiguate(decode_gpu_status(body, self._clock()), target)
        paced = replace(snapshot, interval_seconds=self._interval_seconds)
        return Delivery(source=self.name, target=target, result=paced)
