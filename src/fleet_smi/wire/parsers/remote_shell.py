"""What `remote_shell.sh` prints on a node, or a fleet-smi that is installed there, to a report."""

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
from fleet_smi.wire.cli_text import excerpt, parse_number
from fleet_smi.wire.parsers._remote_gpus import parse_gpus
from fleet_smi.wire.parsers._remote_processes import parse_processes
from fleet_smi.wire.parsers._remote_sections import ScriptOutput, parse_sections
from fleet_smi.wire.parsers.kernel import node_id_from_machine_id, parse_loadavg, parse_meminfo
from fleet_smi.wire.parsers.nvidia_smi import NvidiaSmiReading
from fleet_smi.wire.report import REPORT_VERSION, Report, decode_report

_CPU = re.compile(r"^cpu[0-9]", re.MULTILINE)
_BOOT = re.compile(r"^btime ([0-9]{1,12})$", re.MULTILINE)


def parse_script_output(body: bytes, marker: str, *, within_deadline: bool = True) -> Report:
    """The report in what came; raise `Undecodable` or `WrongVersion`.

    What came of an answer that was not there in time is a report, too, if it had come as far
    as nvidia-smi: of a node whose driver hangs.
    """
    answer = parse_sections(body, marker)
    if "report" in answer:
        text = answer.text("report")
        return decode_report(text.encode("utf-8", "surrogateescape"), json=True)
    if "end" not in answer and (within_deadline or "nvidia_smi" not in answer):
        raise Undecodable(f"what came is no report: {_shown(body)}")
    return _report(answer)


def _shown(body: bytes) -> str:
    return excerpt(body[:4096].decode("utf-8", "replace"))


def _report(answer: ScriptOutput) -> Report:
    taken_at = check_range("started_at", parse_number(answer.text("taken_at")), {})
    name = sanitize_text(answer.text("hostname"), 128)
    if taken_at is None or not name:
        raise Undecodable("it tells neither its name nor the time")
    snapshot = _snapshot(answer, name, taken_at)
    sent_at = taken_at + answer.seconds_between("taken_at", "end")
    return Report(version=REPORT_VERSION, sent_at=sent_at, snapshots=(snapshot,))


def _snapshot(answer: ScriptOutput, name: str, taken_at: float) -> Snapshot:
    node_id = node_id_from_machine_id(answer.text("machine_id"), name)
    reading, error = parse_gpus(answer)
    host = _host(answer, reading)
    people = parse_processes(answer, host.booted_at)
    gpus = (with_process_details(gpu, people) for gpu in reading.gpus)
    return Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        boot_id=sanitize_text(answer.text("boot_id"), 64) or None,
        host=host,
        gpus=tuple(with_node_scoped_uuid(with_host_memory(gpu, host), node_id) for gpu in gpus),
        runs=_runs(answer, error),
    )


def _host(answer: ScriptOutput, reading: NvidiaSmiReading) -> Host:
    used, total = parse_meminfo(answer.text("memory"))
    load = parse_loadavg(answer.text("load"))
    stat = answer.text("stat")
    boot = _BOOT.search(stat)
    return Host(
        addresses=_addresses(answer.text("addresses")),
        kernel=sanitize_text(answer.text("kernel"), 128) or None,
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
    words = (sanitize_text(word, 64) for word in text.split()[:64])
    return tuple(word for word in words if word and not word.startswith(("127.", "::1", "fe80")))


def _runs(answer: ScriptOutput, error: CollectError | None) -> tuple[CollectorRun, ...]:
    gpus_from = "kernel_version" if "kernel_version" in answer else "people"
    return (
        CollectorRun(
            name="host", outcome="ok", seconds=answer.seconds_between("taken_at", gpus_from)
        ),
        _nvidia_run(answer.seconds_between(gpus_from, "people"), error),
        CollectorRun(
            name="processes", outcome="ok", seconds=answer.seconds_between("people", "end")
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
