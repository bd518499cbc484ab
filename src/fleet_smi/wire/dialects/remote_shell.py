"""What `remote_shell.sh` prints on a node, or a fleet-smi that is installed there, to a report."""

import re

from fleet_smi.errors import CollectError, NotAnswering, NotPresent, Undecodable
from fleet_smi.model.joining import (
    fault_kind,
    with_own_uuid,
    with_people,
    with_shared_memory,
)
from fleet_smi.model.plausible import plausible
from fleet_smi.model.snapshot import CollectorRun, Host, Snapshot
from fleet_smi.model.text import clean
from fleet_smi.wire.dialects._remote_gpus import read_gpus
from fleet_smi.wire.dialects._remote_parts import Answer, read_parts
from fleet_smi.wire.dialects._remote_people import read_people
from fleet_smi.wire.dialects.nvidia_smi import Reading
from fleet_smi.wire.kernel import load_of, memory_of, node_id_of
from fleet_smi.wire.printed import excerpt, number
from fleet_smi.wire.report import VERSION, Report, decode_report

_CPU = re.compile(r"^cpu[0-9]", re.MULTILINE)
_BOOT = re.compile(r"^btime ([0-9]{1,12})$", re.MULTILINE)


def parse(body: bytes, mark: str, *, in_time: bool = True) -> Report:
    """The report in what came; raise `Undecodable` or `WrongVersion`.

    What came of an answer that was not there in time is a report, too, if it had come as far
    as nvidia-smi: of a node whose driver hangs.
    """
    answer = read_parts(body, mark)
    if "report" in answer:
        text = answer.text("report")
        return decode_report(text.encode("utf-8", "surrogateescape"), json=True)
    if "end" not in answer and (in_time or "nvidia_smi" not in answer):
        raise Undecodable(f"what came is no report: {_shown(body)}")
    return _report(answer)


def _shown(body: bytes) -> str:
    return excerpt(body[:4096].decode("utf-8", "replace"))


def _report(answer: Answer) -> Report:
    taken_at = plausible("started_at", number(answer.text("taken_at")), {})
    name = clean(answer.text("hostname"), 128)
    if taken_at is None or not name:
        raise Undecodable("it tells neither its name nor the time")
    snapshot = _snapshot(answer, name, taken_at)
    sent_at = taken_at + answer.seconds("taken_at", "end")
    return Report(version=VERSION, sent_at=sent_at, snapshots=(snapshot,))


def _snapshot(answer: Answer, name: str, taken_at: float) -> Snapshot:
    node_id = node_id_of(answer.text("machine_id"), name)
    reading, error = read_gpus(answer)
    host = _host(answer, reading)
    people = read_people(answer, host.booted_at)
    gpus = (with_people(gpu, people) for gpu in reading.gpus)
    return Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        boot_id=clean(answer.text("boot_id"), 64) or None,
        host=host,
        gpus=tuple(with_own_uuid(with_shared_memory(gpu, host), node_id) for gpu in gpus),
        runs=_runs(answer, error),
    )


def _host(answer: Answer, reading: Reading) -> Host:
    used, total = memory_of(answer.text("memory"))
    load = load_of(answer.text("load"))
    stat = answer.text("stat")
    boot = _BOOT.search(stat)
    return Host(
        addresses=_addresses(answer.text("addresses")),
        kernel=clean(answer.text("kernel"), 128) or None,
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
    words = (clean(word, 64) for word in text.split()[:64])
    return tuple(word for word in words if word and not word.startswith(("127.", "::1", "fe80")))


def _runs(answer: Answer, error: CollectError | None) -> tuple[CollectorRun, ...]:
    gpus_from = "kernel_version" if "kernel_version" in answer else "people"
    return (
        CollectorRun(name="host", outcome="ok", seconds=answer.seconds("taken_at", gpus_from)),
        _nvidia_run(answer.seconds(gpus_from, "people"), error),
        CollectorRun(name="processes", outcome="ok", seconds=answer.seconds("people", "end")),
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
