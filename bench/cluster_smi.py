"""CPU cost of one cluster-smi report of 8 GPUs on the hub's node port."""

from collections.abc import Mapping
from pathlib import Path

from bench.line_program import LineProgram
from bench.peers import HUB, PEERS, NotAvailable
from bench.report import MeasurementSeries, Pair

_PORT = Path(__file__).with_name("cluster_smi_port.py")
_MOST_ROUNDS = 8  # a round takes five seconds

RECEIVED = "received"
TRANSLATED = "received, decoded and translated"
DELIVERED = "the same, and judged by the fleet"
ROUTER = "cluster-smi's router in Go, as once measured"
STAGES = {RECEIVED: "receive", TRANSLATED: "translate", DELIVERED: "deliver"}
PAIRS = (
    Pair(ours=TRANSLATED, theirs=ROUTER, budget=1.0),
    # The cluster-smi router makes no verdicts.
    Pair(ours=DELIVERED, theirs=ROUTER),
)
_LIMIT = MeasurementSeries(label=ROUTER, values=(40e-6,))


def measure(environment: Mapping[str, str], rounds: int) -> list[MeasurementSeries]:
    """Measure the CPU time per report at each level of processing, interleaved."""
    values: dict[str, list[float]] = {label: [] for label in STAGES}
    try:
        with LineProgram([str(PEERS[HUB].python), "-I", str(_PORT)], environment) as port:
            for _ in range(min(rounds, _MOST_ROUNDS)):
                for label, work in STAGES.items():
                    values[label].append(float(port.request(work)))
    except NotAvailable as reason:
        note = f"does not run: {reason}"
        return [*(MeasurementSeries(label=label, note=note) for label in STAGES), _LIMIT]
    return [
        *(MeasurementSeries(label=label, values=tuple(found)) for label, found in values.items()),
        _LIMIT,
    ]
