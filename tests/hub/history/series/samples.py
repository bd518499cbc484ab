"""Sample buffers of a node with one GPU."""

from fleet_smi.hub.history.series.buffer import SampleBuffer, device_uuids
from fleet_smi.model.snapshot import Host
from fleet_smi.model.units import GIB
from tests.builders import gpu, snapshot


def add_sample(buffer: SampleBuffer, at: float, busy: float | None, uuid: str = "GPU-a") -> None:
    host = Host(cpu_percent=12.5, memory_used_bytes=GIB, memory_total_bytes=4 * GIB)
    card = gpu(busy_percent=busy, memory_used_bytes=8 * GIB, sm_clock_mhz=1980, uuid=uuid)
    report = snapshot(card, host=host)
    buffer.set_gpus(device_uuids(report))
    buffer.add(at, report)


def buffer_of(*samples: tuple[float, float | None]) -> SampleBuffer:
    buffer = SampleBuffer()
    for at, busy in samples:
        add_sample(buffer, at, busy)
    return buffer
