"""The metric registry: one row per figure of a GPU or node, from which all else about it follows.

Range checks of GPUs (`range_check`), the CSV columns (`wire/fleet_csv`), the Prometheus metrics
(`wire/prometheus`), the layout of history rows (`hub/history/series`) and the table's cells
(`terminal/view/gpu_cells`) are derived from these rows; a test compares the figures of the live
stream with them. To add a metric, see "A metric" in CONTRIBUTING.md.
"""

from typing import Literal

from msgspec import Struct

Unit = Literal[
    "bytes", "percent", "celsius", "watts", "joules", "megahertz", "bytes_per_second", "count"
]
Aggregation = Literal["gauge", "mean", "counter", "throttled"]
"""How history rolls a figure up: a gauge as minimum, time-weighted mean and maximum; one whose
extremes nobody looks for, in a third of the space, as its mean alone; a counter, which only rises
until the driver is reloaded, as the mean of its growth per second; throttle reasons as the
percentage of time in which one of them slowed the GPU down. Only gauges are taken from every
report, the others every few seconds."""

_PERCENT = (0, 100)
_BYTES = (0, 2**50)  # 1 PiB
_CELSIUS = (-40, 200)
_WATTS = (0, 5_000)
_JOULES = (0, 10**13)  # 60 years at 5 kW; NVML's "not available", 2⁶⁴−1 mJ, is more
_MHZ = (0, 50_000)
_ERRORS = (0, 2**32 - 2)  # 2³²−1 is "not available" in NVML
_GENERATION = (1, 16)
_LANES = (1, 64)
_RATE = (0, 10**12)  # eight times the fastest link there is; 2³²−1 KB/s is more
_LINKS = (0, 64)  # NVML numbers up to 36
_NVLINK_RATE = (0, 10**13)  # ten times the links of the fastest card there is


class FigureSpec(Struct, frozen=True, kw_only=True):
    """One metric: what it is, which values are possible, and where it is published.

    `field` is the attribute of `Gpu` (and of `Instance`, where that has one of this name); it is
    the name in JSON and history, and of the column in CSV. `prometheus` is the metric's name
    without `fleet_smi_gpu_` or `fleet_smi_mig_`, in base units, and `help` its HELP text.
    `history` says how it is recorded over time, `table` under which heading the terminal shows
    it, and `stream` whether the live stream carries it. `None` and false mean: not there.
    """

    field: str
    unit: Unit
    valid_range: tuple[float, float]
    csv: bool = True
    prometheus: str | None = None
    help: str = ""
    history: Aggregation | None = None
    table: str | None = None
    stream: bool = False


GPU_FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        field="memory_used_bytes",
        unit="bytes",
        valid_range=_BYTES,
        prometheus="memory_used_bytes",
        help="Memory in use.",
        history="gauge",
        stream=True,
    ),
    FigureSpec(
        field="memory_total_bytes",
        unit="bytes",
        valid_range=_BYTES,
        prometheus="memory_total_bytes",
        help="Total memory.",
    ),
    FigureSpec(
        field="busy_percent",
        unit="percent",
        valid_range=_PERCENT,
        prometheus="busy_ratio",
        help="Fraction of time in which a kernel ran.",
        history="gauge",
        table="UTIL",
        stream=True,
    ),
    FigureSpec(
        field="memory_busy_percent",
        unit="percent",
        valid_range=_PERCENT,
        prometheus="memory_busy_ratio",
        help="Fraction of time in which memory was read or written.",
    ),
    FigureSpec(
        field="encoder_percent",
        unit="percent",
        valid_range=_PERCENT,
        prometheus="encoder_ratio",
        help="Fraction of time in which the video encoder was busy.",
        history="mean",
    ),
    FigureSpec(
        field="decoder_percent",
        unit="percent",
        valid_range=_PERCENT,
        prometheus="decoder_ratio",
        help="Fraction of time in which the video decoder was busy.",
        history="mean",
    ),
    FigureSpec(
        field="temperature_celsius",
        unit="celsius",
        valid_range=_CELSIUS,
        prometheus="temperature_celsius",
        help="Temperature.",
        history="gauge",
        table="TEMP",
        stream=True,
    ),
    FigureSpec(
        field="fan_percent",
        unit="percent",
        # NVML: "may exceed 100 % in certain cases": it is of the speed a fan is made for.
        valid_range=(0, 200),
        prometheus="fan_ratio",
        help="Fan speed.",
        table="FAN",
    ),
    FigureSpec(
        field="power_watts",
        unit="watts",
        valid_range=_WATTS,
        prometheus="power_watts",
        help="Power drawn.",
        history="gauge",
        table="POWER",
        stream=True,
    ),
    FigureSpec(
        field="power_limit_watts",
        unit="watts",
        valid_range=_WATTS,
        prometheus="power_limit_watts",
        help="Power limit.",
        table="LIMIT",
    ),
    FigureSpec(
        field="sm_clock_mhz",
        unit="megahertz",
        valid_range=_MHZ,
        prometheus="sm_clock_hertz",
        help="SM clock.",
        history="gauge",
        table="CLOCK",
    ),
    FigureSpec(field="sm_clock_max_mhz", unit="megahertz", valid_range=_MHZ),
    FigureSpec(
        field="memory_clock_mhz",
        unit="megahertz",
        valid_range=_MHZ,
        prometheus="memory_clock_hertz",
        help="Memory clock.",
        table="MEMCLOCK",
    ),
    FigureSpec(field="memory_clock_max_mhz", unit="megahertz", valid_range=_MHZ),
    FigureSpec(
        field="ecc_corrected",
        unit="count",
        valid_range=_ERRORS,
        prometheus="ecc_corrected_total",
        help="Memory errors that were corrected.",
    ),
    FigureSpec(
        field="ecc_uncorrected",
        unit="count",
        valid_range=_ERRORS,
        prometheus="ecc_uncorrected_total",
        help="Memory errors that could not be corrected.",
        table="ECC",
    ),
    FigureSpec(field="pcie_generation", unit="count", valid_range=_GENERATION),
    FigureSpec(field="pcie_generation_max", unit="count", valid_range=_GENERATION),
    FigureSpec(field="pcie_width", unit="count", valid_range=_LANES),
    FigureSpec(field="pcie_width_max", unit="count", valid_range=_LANES),
    FigureSpec(field="pcie_rx_bytes_per_second", unit="bytes_per_second", valid_range=_RATE),
    FigureSpec(field="pcie_tx_bytes_per_second", unit="bytes_per_second", valid_range=_RATE),
    FigureSpec(
        field="memory_temperature_celsius",
        unit="celsius",
        valid_range=_CELSIUS,
        prometheus="memory_temperature_celsius",
        help="Memory temperature.",
        history="gauge",
    ),
    FigureSpec(
        field="energy_joules",
        unit="joules",
        valid_range=_JOULES,
        prometheus="energy_joules_total",
        help="Energy used since the driver was loaded.",
        history="counter",
    ),
    FigureSpec(
        field="nvlink_links",
        unit="count",
        valid_range=_LINKS,
        prometheus="nvlink_links",
        help="NVLink links of the card.",
    ),
    FigureSpec(
        field="nvlink_links_active",
        unit="count",
        valid_range=_LINKS,
        prometheus="nvlink_links_active",
        help="NVLink links that are up.",
    ),
    FigureSpec(
        field="nvlink_rx_bytes_per_second",
        unit="bytes_per_second",
        valid_range=_NVLINK_RATE,
        prometheus="nvlink_receive_bytes_per_second",
        help="Data received over NVLink, all links together.",
    ),
    FigureSpec(
        field="nvlink_tx_bytes_per_second",
        unit="bytes_per_second",
        valid_range=_NVLINK_RATE,
        prometheus="nvlink_transmit_bytes_per_second",
        help="Data sent over NVLink, all links together.",
    ),
)
"""New rows go to the end: this is the order of the CSV columns, which must not move."""

NODE_FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        field="cpu_percent",
        unit="percent",
        valid_range=_PERCENT,
        csv=False,
        prometheus="cpu_ratio",
        help="CPU in use.",
        history="gauge",
        stream=True,
    ),
    FigureSpec(
        field="load_1_minute",
        unit="count",
        valid_range=(0, 1_000_000),
        csv=False,
        prometheus="load1",
        help="Load over one minute.",
    ),
    FigureSpec(
        field="memory_used_bytes",
        unit="bytes",
        valid_range=_BYTES,
        csv=False,
        prometheus="memory_used_bytes",
        help="Memory in use.",
    ),
    FigureSpec(
        field="memory_total_bytes",
        unit="bytes",
        valid_range=_BYTES,
        csv=False,
        prometheus="memory_total_bytes",
        help="Total memory.",
    ),
    FigureSpec(
        field="memory_percent",
        unit="percent",
        valid_range=_PERCENT,
        csv=False,
        history="gauge",
        stream=True,
    ),
)
"""Figures of the machine around the GPUs: attributes of `Host`, prefixed `fleet_smi_node_`.

`memory_percent` is no attribute: it is memory used divided by memory total.
"""

_THROTTLED = FigureSpec(
    field="throttle_reasons", unit="percent", valid_range=_PERCENT, csv=False, history="throttled"
)
RECORDED_GPU_FIGURES = (*[figure for figure in GPU_FIGURES if figure.history], _THROTTLED)
RECORDED_NODE_FIGURES = tuple([figure for figure in NODE_FIGURES if figure.history])
"""What history records of each GPU and of each node."""
