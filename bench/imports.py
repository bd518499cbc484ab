"""Start-up time: the bare interpreter, and the imports of `fleet-smi free`."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from bench.peers import OURS, PEERS, install
from bench.report import MeasurementSeries, format_table
from bench.wall_time import run_timed

_LINE = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \| *(\S+)")
_DEAREST = 10
_RUNS = 5
_READER = "import fleet_smi.node.bindings.nvml"


@dataclass(frozen=True, kw_only=True)
class ImportedModule:
    """Import time of one module, own and cumulative, in microseconds."""

    name: str
    own_microseconds: int
    total_microseconds: int


def measure(environment: Mapping[str, str], rounds: int) -> list[MeasurementSeries]:
    """Measure the wall time of starts, from a bare interpreter to the command."""
    install(PEERS[OURS])
    python, program = str(PEERS[OURS].python), str(PEERS[OURS].program("fleet-smi"))
    lines = {
        "python -I -S -c pass": [python, "-I", "-S", "-c", "pass"],
        "python -c pass": [python, "-c", "pass"],
        "fleet-smi --version": [program, "--version"],
    }
    values: dict[str, list[float]] = {label: [] for label in lines}
    for turn in range(rounds + 1):
        for label, line in lines.items():
            seconds, _ = run_timed(line, environment)
            if turn:  # the first round warms up
                values[label].append(seconds)
    return [
        MeasurementSeries(label=label, values=tuple(seconds)) for label, seconds in values.items()
    ]


def slowest_imports(environment: Mapping[str, str]) -> str:
    """List the slowest imports of `fleet-smi free` in each of its two processes."""
    bare = {one.name for one in _imported(["-c", "pass"], environment)}
    shares = {
        "fleet-smi free": _imported(["-m", "fleet_smi", "free"], environment),
        "its reader process": _imported(["-c", _READER], environment),
    }
    return "\n".join(
        _share(title, [one for one in imported if one.name not in bare])
        for title, imported in shares.items()
    )


def _share(title: str, imported: list[ImportedModule]) -> str:
    total = sum(one.own_microseconds for one in imported) / 1000
    rows = [[f"{title}: {len(imported)} modules, {total:.1f} ms", "own ms", "with imports ms"]]
    rows += [
        [
            f"  {one.name}",
            f"{one.own_microseconds / 1000:.1f}",
            f"{one.total_microseconds / 1000:.1f}",
        ]
        for one in sorted(imported, key=lambda one: -one.own_microseconds)[:_DEAREST]
    ]
    return format_table(rows)


def _imported(arguments: list[str], environment: Mapping[str, str]) -> list[ImportedModule]:
    """Return the minimum import time per module over several runs."""
    best: dict[str, ImportedModule] = {}
    for _ in range(_RUNS):
        done = subprocess.run(
            [str(PEERS[OURS].python), "-X", "importtime", *arguments],
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
        )
        for one in parse_importtime(done.stderr):
            known = best.get(one.name)
            if known is None or one.own_microseconds < known.own_microseconds:
                best[one.name] = one
    return list(best.values())


def parse_importtime(text: str) -> list[ImportedModule]:
    """Parse the output of `-X importtime`."""
    return [
        ImportedModule(name=name, own_microseconds=int(own), total_microseconds=int(whole))
        for own, whole, name in _LINE.findall(text)
    ]
