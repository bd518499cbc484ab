"""A second, naive parser of nvidia-smi captures, to catch a wrong tag in the real one.

It shares no code with the parsers: regular expressions over the raw text of each device.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Gpu
from fleet_smi.wire.parsers._nvidia_list import parse_list
from fleet_smi.wire.parsers.nvidia_smi import classify_failure, parse_xml
from tests.captures import capture_text

MIB = 1024 * 1024


@dataclass
class CaptureComparison:
    """Counts of one file: parsed, refused by name, fields compared, unknown and wrong ones."""

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
    """Return the values in the text of one <gpu>, by the names of the model's fields."""
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


def check_failure(path: Path) -> CaptureComparison:
    """Count whether a failure is recognised by name."""
    return (
        CaptureComparison(named=1)
        if classify_failure(capture_text(path))
        else CaptureComparison(unknown=1)
    )


def check_list(path: Path) -> CaptureComparison:
    """Compare `-L` with its lines; output of other commands is refused or lists the same."""
    text = capture_text(path)
    try:
        gpus = parse_list(text)
    except CollectError:
        return CaptureComparison(named=1)
    found = [(gpu.name, gpu.uuid, *(part.uuid for part in gpu.instances)) for gpu in gpus]
    expected: list[tuple[str, ...]] = []
    for line in text.splitlines():  # ends with a UUID of 40 characters and ")"
        if line.startswith("GPU "):
            expected.append((line[line.index(": ") + 2 : line.index(" (UUID")], line[-41:-1]))
        elif "UUID: MIG-" in line:
            expected[-1] += (line.strip()[-41:-1],)
    wrong = [] if found == expected else [f"{path.name}: {found} is read, {expected} is printed"]
    return CaptureComparison(read=1, fields=sum(map(len, expected)), wrong=wrong)


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a transcript of several, each with its output."""
    heads = list(re.finditer(r"^# (?:\$ )?nvidia-smi ?(.*)\n(?:#{20,}\n)?", text, re.MULTILINE))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        end = len(text) if following is None else following.start()
        yield head[1].strip(), re.split(r"^#{20,}$", text[head.end() : end], flags=re.MULTILINE)[0]


def check_sections(path: Path) -> CaptureComparison:
    """Parse each `-L` in a transcript of several commands."""
    tally = CaptureComparison()
    for command, body in sections(capture_text(path)):
        if command in ("-L", "--list-gpus"):
            tally.read += len(parse_list(body)) > 0
    return tally


CHECKS: dict[str, Callable[[Path], CaptureComparison]] = {
    "nvidia/xml": check_xml,
    "nvidia/xml-mock": check_xml,
    "nvidia/xml-fragments": check_xml,
    "nvidia/topology": check_list,
    "nvidia/capture": check_sections,
    "nvidia/errors": check_failure,
}
