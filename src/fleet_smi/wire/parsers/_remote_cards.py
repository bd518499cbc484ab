"""Parse AMD and Intel GPUs in the output of the ssh script: amd-smi, rocm-smi and xpu-smi."""

import re
from collections.abc import Callable
from typing import NamedTuple

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, ReadFailed
from fleet_smi.model.merge import fault_from_error, fault_kind
from fleet_smi.model.pci import first_unused_id, normalize_pci_address
from fleet_smi.model.pci_names import pci_name
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Vendor
from fleet_smi.wire.parsers import amd_smi, rocm_smi, xpu_smi
from fleet_smi.wire.parsers._remote_sections import ScriptOutput

_MAX_CARDS = 1024
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII | re.IGNORECASE)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


class _Program(NamedTuple):
    collector: str
    vendor: Vendor
    pci_vendor: str
    parse: Callable[..., tuple[Gpu, ...]]

    @property
    def name(self) -> str:
        return self.collector.replace("_", "-")


_PROGRAMS = (
    _Program("amd_smi", "amd", "1002", amd_smi.parse),
    _Program("rocm_smi", "amd", "1002", rocm_smi.parse),
    _Program("xpu_smi", "intel", "8086", xpu_smi.parse),
)
# The section that follows each of them in the script.
_NEXT_SECTIONS = ("cards@0x8086", "queried", "end")


def parse_cards(output: ScriptOutput) -> tuple[tuple[Gpu, ...], tuple[CollectorRun, ...]]:
    """Return the AMD and Intel GPUs, and the runs of the programs that the script has tried.

    Where a program failed, or was not run because a GPU sleeps, its GPUs are those that the
    kernel lists, by identity only.
    """
    gpus: list[Gpu] = []
    runs: list[CollectorRun] = []
    queried = {program.vendor for program in _PROGRAMS if program.collector in output}
    for program in _PROGRAMS:
        if program.collector in output:
            found, run = _parse_program(output, program)
            gpus += found
            runs.append(run)
        elif program.vendor not in queried:
            queried.add(program.vendor)
            # The script runs no program while a card sleeps, because that would wake it.
            sleeping = _cards(output, program)
            if sleeping:
                gpus += sleeping
                runs.append(_not_run(program))
    return tuple(gpus), tuple(runs)


def has_run_program(output: ScriptOutput) -> bool:
    """Return whether the script got as far as running one of these programs."""
    return any(program.collector in output for program in _PROGRAMS)


def _not_run(program: _Program) -> CollectorRun:
    detail = "is not run while a GPU sleeps, because that would wake it"
    return CollectorRun(name=program.collector, outcome="ok", seconds=0.0, detail=detail)


def _parse_program(output: ScriptOutput, program: _Program) -> tuple[tuple[Gpu, ...], CollectorRun]:
    following = [name for name in _NEXT_SECTIONS if program.vendor == "amd" or "cards" not in name]
    seconds = output.seconds_between(program.collector, output.first_of(*following))
    try:
        gpus = _gpus(output, program)
    except CollectError as error:
        absent = isinstance(error, NotPresent)
        fault = fault_from_error(error)
        return () if absent else _cards(output, program, fault), CollectorRun(
            name=program.collector,
            outcome="absent" if absent else "failed",
            seconds=seconds,
            detail=str(error),
            fault=None if absent else fault_kind(error),
        )
    return gpus, CollectorRun(name=program.collector, outcome="ok", seconds=seconds)


def _gpus(output: ScriptOutput, program: _Program) -> tuple[Gpu, ...]:
    if f"hangs@{program.collector}" in output:
        raise NotAnswering(f"an earlier {program.name} still hangs in the driver: see dmesg")
    calls = [call for call in output.calls(program.collector) if call.detail]
    # It did not end, and `timeout` could not kill it: the driver hangs.
    if not calls or calls[-1].exit_code is None:
        raise NotAnswering(f"{program.name} did not answer in time: see dmesg")
    try:
        return program.parse(*(call.text for call in calls))
    except ReadFailed:
        # Slow is not hung: these programs read every sensor of every GPU.
        if any(call.timed_out for call in calls):
            raise ReadFailed(f"{program.name} did not end in time and was killed") from None
        raise


def _cards(output: ScriptOutput, program: _Program, fault: Fault | None = None) -> tuple[Gpu, ...]:
    """Return the cards that the kernel lists: their identity, and whether they sleep."""
    cards: list[dict[str, str]] = []
    for line in output.text(f"cards@0x{program.pci_vendor}").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "device" and len(cards) < _MAX_CARDS:
            cards.append({})
        if cards:
            cards[-1].setdefault(key, value)
    taken: set[str] = set()
    return tuple(_card(index, card, program, fault, taken) for index, card in enumerate(cards))


def _card(
    index: int, card: dict[str, str], program: _Program, fault: Fault | None, taken: set[str]
) -> Gpu:
    vendor, asleep = program.vendor, card.get("state") == "suspended"
    address = card.get("device", "").lower()
    address = address if _PCI.fullmatch(address) else ""
    device = _HEX.fullmatch(card.get("id", ""))
    pci_id = f"{program.pci_vendor}:{device[1].lower():0>4}" if device else ""
    name = sanitize_text(card.get("name", ""), 128) or pci_name(pci_id)
    unique_id = _HEX.fullmatch(card.get("unique_id", ""))
    number = int(unique_id[1], 16) if unique_id and vendor == "amd" else 0
    candidates = (
        f"GPU-{number:016x}" if number else None,
        f"{vendor}-{address}" if address else None,
        f"{vendor}-gpu{index}",
    )
    uuid = first_unused_id(candidates, taken)
    reason = f"{program.name} is not run while another GPU sleeps"
    return Gpu(
        uuid=uuid,
        uuid_is_made=not uuid.startswith("GPU-"),
        index=index,
        vendor=vendor,
        name=name,
        pci_bus_id=normalize_pci_address(address) if address else None,
        asleep=asleep,
        fault=None if asleep else fault,
        unread={} if asleep or fault else {"memory_used_bytes": reason, "processes": reason},
    )
