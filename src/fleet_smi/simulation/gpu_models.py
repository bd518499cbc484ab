"""GPU models of the simulated fleet, with typical figures at idle and under load."""

from msgspec import Struct

from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import MIB

RESERVED_BYTES = 4 * MIB
"""Memory in use on an idle GPU."""


class GpuModel(Struct, frozen=True, kw_only=True, gc=False):
    """A GPU model and the figures it shows at idle and under load."""

    name: str
    memory_total_bytes: int
    idle_watts: float
    power_limit_watts: float
    idle_celsius: float
    hot_celsius: float
    sm_clock_idle_mhz: int
    sm_clock_max_mhz: int
    memory_clock_idle_mhz: int
    memory_clock_max_mhz: int
    pcie_generation: int
    pcie_generation_idle: int
    idle_pstate: str = "P0"
    busy_pstate: str = "P0"
    has_fans: bool = False
    has_ecc: bool = True
    has_mig: bool = False
    persistence: bool = True
    nvlink_links: int | None = None


H100 = GpuModel(
    name="NVIDIA H100 80GB HBM3",
    memory_total_bytes=81_559 * MIB,
    idle_watts=70.0,
    power_limit_watts=700.0,
    idle_celsius=29.0,
    hot_celsius=71.0,
    sm_clock_idle_mhz=345,
    sm_clock_max_mhz=1980,
    memory_clock_idle_mhz=2619,
    memory_clock_max_mhz=2619,
    pcie_generation=5,
    pcie_generation_idle=5,
    has_mig=True,
    nvlink_links=18,
)
A100 = GpuModel(
    name="NVIDIA A100-SXM4-40GB",
    memory_total_bytes=40_960 * MIB,
    idle_watts=54.0,
    power_limit_watts=400.0,
    idle_celsius=31.0,
    hot_celsius=74.0,
    sm_clock_idle_mhz=210,
    sm_clock_max_mhz=1410,
    memory_clock_idle_mhz=1215,
    memory_clock_max_mhz=1215,
    pcie_generation=4,
    pcie_generation_idle=4,
    has_mig=True,
    nvlink_links=12,
)
L40S = GpuModel(
    name="NVIDIA L40S",
    memory_total_bytes=46_068 * MIB,
    idle_watts=34.0,
    power_limit_watts=350.0,
    idle_celsius=30.0,
    hot_celsius=76.0,
    sm_clock_idle_mhz=210,
    sm_clock_max_mhz=2520,
    memory_clock_idle_mhz=405,
    memory_clock_max_mhz=9001,
    pcie_generation=4,
    pcie_generation_idle=1,
    idle_pstate="P8",
)
RTX_4090 = GpuModel(
    name="NVIDIA GeForce RTX 4090",
    memory_total_bytes=24_564 * MIB,
    idle_watts=19.0,
    power_limit_watts=450.0,
    idle_celsius=36.0,
    hot_celsius=82.0,
    sm_clock_idle_mhz=210,
    sm_clock_max_mhz=3105,
    memory_clock_idle_mhz=405,
    memory_clock_max_mhz=10_501,
    pcie_generation=4,
    pcie_generation_idle=1,
    idle_pstate="P8",
    busy_pstate="P2",
    has_fans=True,
    has_ecc=False,
    persistence=False,
)


def make_idle_gpu(model: GpuModel, uuid: str, index: int) -> Gpu:
    """Return an idle GPU of that model."""
    errors = 0 if model.has_ecc else None
    return Gpu(
        uuid=uuid,
        index=index,
        vendor="nvidia",
        name=model.name,
        pci_bus_id=f"00000000:{0x1B + 0x1B * index:02X}:00.0",
        memory_used_bytes=RESERVED_BYTES,
        memory_total_bytes=model.memory_total_bytes,
        busy_percent=0.0,
        memory_busy_percent=0.0,
        encoder_percent=0.0,
        decoder_percent=0.0,
        temperature_celsius=model.idle_celsius,
        fan_percent=0.0 if model.has_fans else None,
        power_watts=model.idle_watts,
        power_limit_watts=model.power_limit_watts,
        sm_clock_mhz=model.sm_clock_idle_mhz,
        sm_clock_max_mhz=model.sm_clock_max_mhz,
        memory_clock_mhz=model.memory_clock_idle_mhz,
        memory_clock_max_mhz=model.memory_clock_max_mhz,
        performance_state=model.idle_pstate,
        throttle_reasons=("gpu_idle",),
        ecc_corrected=errors,
        ecc_uncorrected=errors,
        pcie_generation=model.pcie_generation_idle,
        pcie_generation_max=model.pcie_generation,
        pcie_width=16,
        pcie_width_max=16,
        pcie_rx_bytes_per_second=0,
        pcie_tx_bytes_per_second=0,
        nvlink_links=model.nvlink_links,
        nvlink_links_active=model.nvlink_links,
        nvlink_rx_bytes_per_second=None if model.nvlink_links is None else 0,
        nvlink_tx_bytes_per_second=None if model.nvlink_links is None else 0,
        persistence=model.persistence,
        compute_mode="default",
        mig_mode=False if model.has_mig else None,
        processes=(),
    )
