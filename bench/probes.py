"""Long-lived programs that take samples on request: cost per sample, round by round."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers import OURS, PEERS, NotAvailable, PeerTool, install, last_error
from bench.report import MeasurementSeries, Pair

_PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A kind of sample (`WORK` in `probe.py`), its program, and samples per round."""

    label: str
    benchmark: str
    samples: int
    peer: PeerTool = PEERS[OURS]


class _Failed(Exception):
    """The probe exited instead of answering; the message says why."""


COLLECTORS = "fleet-smi collectors: GPUs and processes"
WHOLE = "fleet-smi, all of an agent's sample"
CPU = (
    Probe(label=COLLECTORS, benchmark="collectors", samples=60),
    Probe(label="fleet-smi, all of a command's sample", benchmark="quick", samples=60),
    Probe(label=WHOLE, benchmark="full", samples=60),
    Probe(label="nvitop take_snapshots", benchmark="nvitop", samples=20, peer=PEERS["nvitop"]),
    # Each sample sleeps for about a second.
    Probe(label="gpustat new_query", benchmark="gpustat", samples=1, peer=PEERS["gpustat"]),
)
CPU_PAIRS = (
    # Like with like: GPUs and processes. A sample of ours also has the host, its addresses and
    # other vendors' cards, and goes through a process of its own so that nothing can hang it.
    Pair(ours=COLLECTORS, theirs="nvitop take_snapshots", budget=0.25),
    Pair(ours=WHOLE, theirs="nvitop take_snapshots"),
    Pair(ours=WHOLE, theirs="gpustat new_query"),
)
PURE = (
    Probe(label="XML of nvidia-smi -q -x, 8 GPUs", benchmark="parse_xml", samples=20),
    Probe(label="Fleet.apply, 8 GPUs", benchmark="apply", samples=400),
    Probe(label="Fleet.apply and Fleet.view, 8 GPUs", benchmark="view", samples=400),
)


def measure(
    probes: Sequence[Probe], environment: Mapping[str, str], rounds: int
) -> list[MeasurementSeries]:
    """Measure the seconds per sample of each probe, interleaved."""
    values: dict[str, list[float]] = {probe.label: [] for probe in probes}
    notes: dict[str, str] = {}
    with ExitStack() as stack:
        running: dict[str, tuple[Probe, subprocess.Popen[str]]] = {}
        for probe in probes:
            try:
                install(probe.peer)
            except NotAvailable as reason:
                notes[probe.label] = f"not available: {reason}"
            else:
                process = stack.enter_context(_running(probe, environment))
                running[probe.label] = probe, process
        for turn in range(rounds + 1):
            for label, (probe, process) in list(running.items()):
                try:
                    value = _ask(process, probe.samples)
                except _Failed as failed:
                    notes[label], values[label] = f"does not run: {failed}", []
                    del running[label]
                    continue
                if turn:  # the first round warms up
                    values[label].append(value)
    return list(_series(values, notes))


def _series(
    values: Mapping[str, list[float]], notes: Mapping[str, str]
) -> Iterable[MeasurementSeries]:
    for label, seconds in values.items():
        yield MeasurementSeries(label=label, values=tuple(seconds), note=notes.get(label, ""))


@contextmanager
def _running(probe: Probe, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(probe.peer.python), "-I", str(_PROBE), probe.benchmark],
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(process: subprocess.Popen[str], samples: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{samples}\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _Failed(last_error(_last_words(process))) from None
    line = process.stdout.readline()
    if not line:
        raise _Failed(last_error(_last_words(process)))
    return float(line)


def _last_words(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()
