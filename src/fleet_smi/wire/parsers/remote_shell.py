"""Parse the output of `remote_shell.sh`, or of a fleet-smi that is installed there, to a report."""

import re

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, Undecodable
from fleet_smi.model.merge import (
    fault_kind,
    with_host_memory,
    with_node_scoped_uuid,
    with_process_details,
)
from fleet_smi.model.range_check import check_range
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Host, Snapshot
from fleet_smi.wire.parsers._remote_cards import has_run_program, parse_cards
from fleet_smi.wire.parsers._remote_nvidia import parse_nvidia_gpus
from fleet_smi.wire.parsers._remote_processes import parse_processes
from fleet_smi.wire.parsers._remote_sections import ScriptOutput, parse_sections
from fleet_smi.wire.parsers.kernel import node_id_from_machine_id, parse_loadavg, parse_meminfo
from fleet_smi.wire.parsers.nvidia_smi import NvidiaSmiReading
from fleet_smi.wire.program_output import excerpt, parse_number
from fleet_smi.wire.report import REPORT_VERSION, Report, decode_report

_CPU = re.compile(r"^cpu[0-9]", re.MULTILINE)
_BOOT = re.compile(r"^btime ([0-9]{1,12})$", re.MULTILINE)


def parse_script_output(body: bytes, marker: str, *, within_deadline: bool = True) -> Report:
    """Return the report in the script's output; raise `Undecodable` or `UnsupportedVersion`.

    Output that was cut off at the deadline is a report, too, if it had come as far as a vendor's
    program: it is of a node whose driver hangs.
    """
    output = parse_sections(body, marker)
    if "report" in output:
        text = output.text("report")
        return decode_report(text.encode("utf-8", "surrogateescape"), json=True)
    reached_program = "nvidia_smi" in output or has_run_program(output)
    if "end" not in output and (within_deadline or not reached_program):
        raise Undecodable(f"what came is no report: {_excerpt(body)}")
    return _report(output)


def _excerpt(body: bytes) -> str:
    return excerpt(body[:4096].decode("utf-8", "replace"))


def _report(output: ScriptOutput) -> Report:
    # `started_at` only for its range, which is that of any time.
    taken_at = check_range("started_at", parse_number(output.text("taken_at")), {})
    name = sanitize_text(output.text("hostname"), 128)
    if taken_at is None or not name:
        raise Undecodable("the output has neither a host name nor a time")
    snapshot = _snapshot(output, name, taken_at)
    # By the node's clock, plus the time since then by its uptime, which is never set back.
    sent_at = taken_at + output.seconds_between("taken_at", "end")
    return Report(version=REPORT_VERSION, sent_at=sent_at, snapshots=(snapshot,))


def _snapshot(output: ScriptOutput, name: str, taken_at: float) -> Snapshot:
    node_id = node_id_from_machine_id(output.text("machine_id"), name)
    reading, error = parse_nvidia_gpus(output)
    cards, card_runs = parse_cards(output)
    host = _host(output, reading)
    details = parse_processes(output, host.booted_at)
    gpus = (with_process_details(gpu, details) for gpu in (*reading.gpus, *cards))
    return Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        boot_id=sanitize_text(output.text("boot_id"), 64) or None,
        host=host,
        gpus=tuple(with_node_scoped_uuid(with_host_memory(gpu, host), node_id) for gpu in gpus),
        runs=_runs(output, error, card_runs),
    )


def _host(output: ScriptOutput, reading: NvidiaSmiReading) -> Host:
    used, total = parse_meminfo(output.text("memory"))
    load = parse_loadavg(output.text("load"))
    stat = output.text("stat")
    boot = _BOOT.search(stat)
    return Host(
        addresses=_addresses(output.text("addresses")),
        kernel=sanitize_text(output.text("kernel"), 128) or None,
        driver_version=reading.driver_version,
        cuda_version=reading.cuda_version,
        booted_at=float(boot[1]) if boot else None,
        cpu_count=len(_CPU.findall(stat)) or None,
        load_1_minute=load[0],
        load_5_minutes=load[1],
        load_15_minutes=load[2],
        memory_used_bytes=used,
        memory_total_bytes=total,
    )


def _addresses(text: str) -> tuple[str, ...]:
    addresses = (sanitize_text(address, 64) for address in text.split()[:64])
    local = ("127.", "::1", "fe80")
    return tuple(address for address in addresses if address and not address.startswith(local))


def _runs(
    output: ScriptOutput, error: CollectError | None, card_runs: tuple[CollectorRun, ...]
) -> tuple[CollectorRun, ...]:
    after_nvidia = output.first_of("cards@0x1002", "cards@0x8086", "queried", "processes")
    after_host = output.first_of("kernel_version", after_nvidia)
    return (
        CollectorRun(
            name="host", outcome="ok", seconds=output.seconds_between("taken_at", after_host)
        ),
        _nvidia_run(output.seconds_between(after_host, after_nvidia), error),
        *card_runs,
        CollectorRun(
            name="processes", outcome="ok", seconds=output.seconds_between("processes", "end")
        ),
    )


def _nvidia_run(seconds: float, error: CollectError | None) -> CollectorRun:
    if error is None:
        return CollectorRun(name="nvidia_smi", outcome="ok", seconds=seconds)
    absent = isinstance(error, NotPresent)
    silent = isinstance(error, NotAnswering)
    return CollectorRun(
        name="nvidia_smi",
        outcome="absent" if absent else "failed",
        seconds=seconds,
        detail=f"driver not answering: {error}" if silent else str(error),
        fault=None if absent else fault_kind(error),
    )
