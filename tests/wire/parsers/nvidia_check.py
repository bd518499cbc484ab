"""A second, dumb way to read captures of nvidia-smi, to catch a wrong tag or column.

It shares nothing with the readers: regular expressions over the raw text of each device.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.parsers.nvidia_smi import classify_failure, parse_xml
from fleet_smi.wire.parsers.nvidia_smi_csv import parse_compute_apps, parse_list, parse_query_gpu
from tests.captures import capture_text

MIB = 1024 * 1024

# Captures without a header: what was asked for is known from where they were published.
QUERIED_FIELDS = {
    "compute-apps-not-supported-row.csv": "gpu_uuid,pid,used_memory",
    "gb10-compute-apps.csv": "gpu_uuid,pid,process_name,used_memory",
    "drv440-rtx2080-bare-na.csv": (
        "power.limit,power.min_limit,power.max_limit,memory.total,vbios_version,driver_version,"
        "name,gpu_uuid,power.draw,temperature.gpu,temperature.memory,clocks.current.graphics,"
        "clocks.sm,clocks.mem,utilization.gpu,utilization.memory,fan.speed,"
        "pcie.link.width.current,pstate"
    ),
    # Of this one only what is plain to see is known.
    "rtx3080-wsl-old-driver-many-na.csv": ",".join(
        ["timestamp", "index", "name", "uuid", "x.4", "x.5", "x.6", "memory.total"]
        + [f"x.{place}" for place in range(8, 27)]
    ),
} | dict.fromkeys(
    ("not-supported-vs-na-switch-new.csv", "not-supported-vs-na-switch-old.csv"),
    "memory.total,memory.free,memory.used,temperature.gpu,fan.speed,utilization.gpu,"
    "utilization.memory",
)


@dataclass
class CaptureComparison:
    """How the reading of one file compares."""

    read: int = 0
    named: int = 0
    fields: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, where: str, expected: dict[str, Any], found: Any) -> None:
        for name, value in expected.items():
            got = getattr(found, name)
            self.fields += 1
            self.unknown += value is None
            if got != value:
                self.wrong.append(f"{where} {name}: {got!r} is read, {value!r} is printed")


def first_match(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.DOTALL)
    return None if match is None else match[1].strip()


def tag_body(tag: str, text: str) -> str:
    return first_match(rf"<{tag}>(.*?)</{tag}>", text) or ""


def parse_number(text: str | None, factor: float = 1) -> float | None:
    match = re.match(r"-?[0-9.]+", text or "")
    return None if match is None else float(match[0]) * factor


def tag_number(tag: str, text: str, factor: float = 1) -> float | None:
    return parse_number(first_match(rf"<{tag}>(.*?)</{tag}>", text), factor)


def gpu_blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r'<gpu id="([^"]*)">(.*?)</gpu>', text, re.DOTALL)


def expected_from_xml(block: str) -> dict[str, Any]:
    """What the text of one <gpu> says, by the name of the model's field."""
    fb, power = tag_body("fb_memory_usage", block), tag_body("gpu_power_readings", block)
    old = tag_body("power_readings", block)
    clocks, fastest = tag_body("clocks", block), tag_body("max_clocks", block)
    draws = [
        tag_number(tag, power or old)
        for tag in ("average_power_draw", "instant_power_draw", "power_draw")
    ]
    limits = [tag_number("current_power_limit", power), tag_number("enforced_power_limit", old)]
    mode = first_match(r"<compute_mode>(.*?)<", block)
    return {
        "name": first_match(r"<product_name>(.*?)<", block),
        "memory_total_bytes": tag_number("total", fb, MIB),
        "memory_used_bytes": tag_number("used", fb, MIB),
        "busy_percent": tag_number("gpu_util", tag_body("utilization", block)),
        "memory_busy_percent": tag_number("memory_util", tag_body("utilization", block)),
        "encoder_percent": tag_number("encoder_util", block),
        "decoder_percent": tag_number("decoder_util", block),
        "temperature_celsius": tag_number("gpu_temp", block),
        "memory_temperature_celsius": tag_number("memory_temp", block),
        "fan_percent": tag_number("fan_speed", block),
        "power_watts": next((draw for draw in draws if draw is not None), None),
        "power_limit_watts": next((limit for limit in limits if limit is not None), None),
        "sm_clock_mhz": tag_number("sm_clock", clocks),
        "memory_clock_mhz": tag_number("mem_clock", clocks),
        "sm_clock_max_mhz": tag_number("sm_clock", fastest),
        "memory_clock_max_mhz": tag_number("mem_clock", fastest),
        "performance_state": first_match(r"<performance_state>(.*?)<", block),
        "pcie_generation": tag_number("current_link_gen", block),
        "pcie_generation_max": tag_number("max_link_gen", block),
        "pcie_width": tag_number("current_link_width", block),
        "pcie_width_max": tag_number("max_link_width", block),
        "pcie_rx_bytes_per_second": tag_number("rx_util", block, 1000),
        "pcie_tx_bytes_per_second": tag_number("tx_util", block, 1000),
        "persistence": {"Enabled": True, "Disabled": False}.get(
            first_match(r"<persistence_mode>(.*?)<", block) or ""
        ),
        "mig_mode": {"Enabled": True, "Disabled": False}.get(
            first_match(r"<current_mig>(.*?)<", block) or ""
        ),
        "compute_mode": mode.lower() if mode else None,
        "ecc_corrected": _ecc(block, "single_bit", "_correctable"),
        "ecc_uncorrected": _ecc(block, "double_bit", "_uncorrectable"),
    }


def _ecc(block: str, old: str, new: str) -> float | None:
    errors = tag_body("volatile", block)
    if old in errors:
        return tag_number("total", tag_body(old, errors))
    parts = [parse_number(text) for text in re.findall(rf"<[sd]ram{new}\w*>(.*?)<", errors)]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def expected_reasons(block: str) -> set[str] | None:
    states = re.findall(r"<clocks_(?:event|throttle)_reason_(\w+)>\s*(\w[\w ]*?)\s*<", block)
    return {name for name, state in states if state == "Active"} if states else None


def expected_processes(block: str) -> list[tuple[int, str, float | None]]:
    infos = re.findall(r"<process_info>(.*?)</process_info>", block, re.DOTALL)
    kinds = {"C": "compute", "G": "graphics", "C+G": "compute+graphics"}
    return [
        (
            int(tag_number("pid", info) or 0),
            kinds[first_match(r"<type>(.*?)<", info) or "C"],
            tag_number("used_memory", info, MIB),
        )
        for info in infos
    ]


def check_xml(path: Path) -> CaptureComparison:
    """Compare every device of a document with its raw text."""
    text, tally = capture_text(path), CaptureComparison()
    try:
        gpus = parse_xml(text).gpus
    except ReadFailed:
        return CaptureComparison(named=1)
    tally.read = 1
    blocks = gpu_blocks(text)
    if len(blocks) != len(gpus) and "</nvidia_smi_log>" in text:
        tally.wrong.append(f"{path.name}: {len(gpus)} of {len(blocks)} devices")
    for gpu, (address, block) in zip(gpus, blocks, strict=False):
        _compare_gpu(tally, f"{path.name} {gpu.index}", gpu, address, block)
    return tally


def _compare_gpu(tally: CaptureComparison, where: str, gpu: Gpu, address: str, block: str) -> None:
    tally.compare(where, expected_from_xml(block), gpu)
    reasons = None if gpu.throttle_reasons is None else set(gpu.throttle_reasons)
    is_lost = gpu.fault is not None and gpu.fault.kind == "lost"
    processes = [(p.pid, p.kind, p.gpu_memory_bytes) for p in gpu.processes or ()]
    same = {
        "throttle reasons": reasons == expected_reasons(block),
        "uuid": gpu.uuid.startswith(first_match(r"<uuid>(.*?)<", block) or ""),
        "address": (gpu.pci_bus_id or "").endswith(address[-10:].upper()),
        "processes": processes == expected_processes(block),
        "process list": (gpu.processes is None) == (is_lost or "<processes>" not in block),
        "lost": is_lost == ("GPU is lost" in block),
    }
    tally.fields += len(same)
    tally.wrong += [f"{where}: {name}" for name, holds in same.items() if not holds]


CSV_COLUMNS: dict[str, tuple[str, float]] = {
    "memory_total_bytes": ("memory.total", MIB),
    "memory_used_bytes": ("memory.used", MIB),
    "busy_percent": ("utilization.gpu", 1),
    "memory_busy_percent": ("utilization.memory", 1),
    "encoder_percent": ("utilization.encoder", 1),
    "decoder_percent": ("utilization.decoder", 1),
    "temperature_celsius": ("temperature.gpu", 1),
    "memory_temperature_celsius": ("temperature.memory", 1),
    "fan_percent": ("fan.speed", 1),
    "power_watts": ("power.draw", 1),
    "sm_clock_mhz": ("clocks.current.sm", 1),
    "sm_clock_max_mhz": ("clocks.max.sm", 1),
    "memory_clock_mhz": ("clocks.current.memory", 1),
    "memory_clock_max_mhz": ("clocks.max.memory", 1),
    "pcie_generation": ("pcie.link.gen.current", 1),
    "pcie_generation_max": ("pcie.link.gen.max", 1),
    "pcie_width": ("pcie.link.width.current", 1),
    "pcie_width_max": ("pcie.link.width.max", 1),
    "ecc_corrected": ("ecc.errors.corrected.volatile.total", 1),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total", 1),
    "index": ("index", 1),
}


def csv_rows(text: str, fields: str | None = None) -> list[dict[str, str]]:
    """The rows of a CSV whose names hold no comma."""
    lines = [line.split(", ") for line in text.splitlines() if line.strip()]
    head = fields.split(",") if fields else [name.split(" [")[0].strip() for name in lines.pop(0)]
    return [dict(zip(head, line, strict=True)) for line in lines]


def check_csv(path: Path) -> CaptureComparison:
    """Compare each row, or see that a file of another kind is refused by name."""
    text, asked = capture_text(path), QUERIED_FIELDS.get(path.name)
    if "transposed" in path.name:
        # Somebody's own rearrangement, a name and a value a line: turned back.
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        text = ", ".join(lines[::2]) + "\n" + ", ".join(lines[1::2]) + "\n"
    fields = asked.split(",") if asked else None
    try:
        if "pid" in (asked or text.splitlines()[0]):
            return _check_apps(path.name, text, fields)
        return _check_query(path.name, text, fields)
    except ReadFailed:
        return CaptureComparison(named=1)


def _check_query(name: str, text: str, asked: list[str] | None) -> CaptureComparison:
    gpus, tally = parse_query_gpu(text, asked).gpus, CaptureComparison(read=1)
    rows = csv_rows(text, ",".join(asked) if asked else None)
    for gpu, row in zip(gpus, rows, strict=True):
        expected: dict[str, Any] = {
            field: parse_number(row[column], factor)
            for field, (column, factor) in CSV_COLUMNS.items()
            if column in row
        }
        prefix = re.compile(r"clocks_(event|throttle)_reasons\.")
        states = {prefix.sub("", key): row[key] for key in row if prefix.match(key)}
        if "gpu_idle" in states:
            active = {reason for reason, state in states.items() if state == "Active"}
            if set(gpu.throttle_reasons or ()) != active:
                tally.wrong.append(f"{name}: {gpu.throttle_reasons} is read, {active} is printed")
        if "power.limit" in row:
            expected["power_limit_watts"] = parse_number(
                row.get("enforced.power.limit", row["power.limit"])
            )
        tally.compare(name, expected, gpu)
    return tally


def _check_apps(name: str, text: str, asked: list[str] | None) -> CaptureComparison:
    apps, tally = parse_compute_apps(text, asked), CaptureComparison(read=1)
    rows = csv_rows(text, ",".join(asked) if asked else None)
    told = [row for row in rows if row["pid"].isdigit()]
    memory = "used_gpu_memory" if rows and "used_gpu_memory" in rows[0] else "used_memory"
    expected = [(row["gpu_uuid"], int(row["pid"]), parse_number(row[memory], MIB)) for row in told]
    found = [(uuid, p.pid, p.gpu_memory_bytes) for uuid, ps in apps.processes.items() for p in ps]
    tally.fields = 3 * len(rows)
    if found != expected or bool(apps.unavailable) != (len(told) < len(rows)):
        tally.wrong.append(f"{name}: {found} is read, {expected} is printed")
    return tally


def check_failure(path: Path) -> CaptureComparison:
    """A failure is recognised by name, or is none of nvidia-smi's."""
    return (
        CaptureComparison(named=1)
        if classify_failure(capture_text(path))
        else CaptureComparison(unknown=1)
    )


def check_list(path: Path) -> CaptureComparison:
    """Compare `-L` with its lines; what other commands print is refused or lists the same."""
    text = capture_text(path)
    try:
        gpus = parse_list(text)
    except CollectError:
        return CaptureComparison(named=1)
    found = [(gpu.name, gpu.uuid, *(part.uuid for part in gpu.instances)) for gpu in gpus]
    expected: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if line.startswith("GPU "):
            expected.append((line[line.index(": ") + 2 : line.index(" (UUID")], line[-41:-1]))
        elif "UUID: MIG-" in line:
            expected[-1] += (line.strip()[-41:-1],)
    wrong = [] if found == expected else [f"{path.name}: {found} is read, {expected} is printed"]
    return CaptureComparison(read=1, fields=sum(map(len, expected)), wrong=wrong)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a text in which several are shown one after the other, and their output."""
    heads = list(re.finditer(r"^# (?:\$ )?nvidia-smi ?(.*)\n(?:#{20,}\n)?", text, re.MULTILINE))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        end = len(text) if following is None else following.start()
        yield head[1].strip(), re.split(r"^#{20,}$", text[head.end() : end], flags=re.MULTILINE)[0]


def check_sections(path: Path) -> CaptureComparison:
    """Read what is known of a text of many commands; compare CSV with what `-q` says nearby."""
    tally, told = CaptureComparison(), ""
    for command, body in sections(capture_text(path)):
        if command == "-q":
            told = body
        elif command.startswith("--query-gpu"):
            _join(tally, _check_query(path.name, body.strip(), None))
            _compare_text(tally, path.name, parse_query_gpu(body).gpus[0], told)
        elif command.startswith("--query-compute-apps"):
            _join(tally, _check_apps(path.name, body.strip(), None))
            _compare_pids(tally, path.name, body, told)
        elif command in ("-L", "--list-gpus"):
            tally.read += len(parse_list(body)) > 0
        elif command.startswith(("--query-accounted-apps", "--query-retired-pages")):
            tally.named += _is_refused(body)
    return tally


def _is_refused(body: str) -> bool:
    try:
        parse_compute_apps(body)
    except ReadFailed:
        return True
    return False


def _join(tally: CaptureComparison, other: CaptureComparison) -> None:
    tally.read += other.read
    tally.fields += other.fields
    tally.unknown += other.unknown
    tally.wrong += other.wrong


def _compare_text(tally: CaptureComparison, where: str, gpu: Gpu, told: str) -> None:
    """What does not change from one command to the next, in both formats."""
    if not told:
        return
    fb = first_match(r"\n {4}FB Memory Usage(.*?)\n {4}\S", told) or ""
    fastest = first_match(r"\n {4}Max Clocks(.*?)\n {4}\S", told) or ""
    expected = {
        "name": first_match(r"Product Name +: (.*?)\n", told),
        "uuid": first_match(r"GPU UUID +: (.*?)\n", told),
        "pci_bus_id": first_match(r"\nGPU (\S+)\n", told),
        "memory_total_bytes": parse_number(first_match(r"Total +: (.*?)\n", fb), MIB),
        "power_limit_watts": parse_number(first_match(r"Current Power Limit +: (.*?)\n", told)),
        "sm_clock_max_mhz": parse_number(first_match(r"SM +: (.*?)\n", fastest + "\n")),
        "memory_clock_max_mhz": parse_number(first_match(r"Memory +: (.*?)\n", fastest + "\n")),
        "compute_mode": (first_match(r"Compute Mode +: (.*?)\n", told) or "").lower(),
    }
    tally.compare(f"{where} (-q)", expected, gpu)


def _compare_pids(tally: CaptureComparison, where: str, body: str, told: str) -> None:
    listed = {int(pid) for pid in re.findall(r"Process ID +: (\d+)\n +Type +: C", told)}
    pids = {p.pid for ps in parse_compute_apps(body).processes.values() for p in ps}
    tally.fields += 1
    if told and pids != listed:
        tally.wrong.append(f"{where}: {pids} by CSV, {listed} by -q")


CHECKS: dict[str, Callable[[Path], CaptureComparison]] = {
    "nvidia/xml": check_xml,
    "nvidia/xml-mock": check_xml,
    "nvidia/xml-fragments": check_xml,
    "nvidia/csv": check_csv,
    "nvidia/topology": check_list,
    "nvidia/capture": check_sections,
    "nvidia/errors": check_failure,
}
