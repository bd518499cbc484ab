"""The hub's source `nvgpu`: polls machines that run an nvgpu agent."""

import time
from collections.abc import Callable, Sequence

from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.compat.nvgpu.start_times import StartTimes, list_start_times
from fleet_smi.compat.status_source import StatusSource
from fleet_smi.config import Settings
from fleet_smi.fleet.delivery import Source
from fleet_smi.hub.http_polling import PollRequest
from fleet_smi.model.snapshot import Snapshot

DEFAULT_PORT = 1080
_REFUSED = "requires a token, which nvgpu agents do not have: is it an agent of fleet-smi?"
_BROKEN = "failed (status 500): nvgpu 0.10 always does, and any version where a GPU is lost"
_REQUEST = PollRequest(
    path="/gpu_status",
    default_port=DEFAULT_PORT,
    refusal_messages={401: _REFUSED, 403: _REFUSED},
    failure_messages={500: _BROKEN},
)


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls the agents named in `hub.nvgpu`."""
    return [NvgpuSource(settings.hub.nvgpu, interval_seconds=settings.hub.nvgpu_interval)]


class NvgpuSource(StatusSource):
    """Polls nvgpu agents, which read their GPUs for every request."""

    name = "nvgpu"

    def __init__(
        self,
        targets: Sequence[str],
        *,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            targets,
            _REQUEST,
            interval_seconds=interval_seconds,
            timeout_seconds=timeout_seconds,
            clock=clock,
        )
        self._start_times: dict[str, StartTimes] = {}

    def decode(self, target: str, body: bytes, now: float) -> Snapshot:
        """Decode the machine, taken now."""
        snapshot = decode_gpu_status(body, now, self._start_times.get(target, {}))
        self._start_times[target] = list_start_times(snapshot)
        return snapshot
