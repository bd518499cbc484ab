"""The gpustat codec: files of real gpustat 0.3.2, 1.1.1 and gpustat-web 0.3.0, both ways."""

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fleet_smi.compat.gpustat import codec
from fleet_smi.compat.gpustat.codec import GpustatOptions
from fleet_smi.errors import DeliveryError, EmptyReport, TruncatedReport, Undecodable, Unreachable
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import MIB
from tests.builders import NOON
from tests.compat.seed_samples import seed_sample
from tests.verdicts import judge_once

PCU = GpustatOptions(command=True, user=True, pid=True)
ALL = replace(PCU, fan=True, encoder=True, decoder=True, power="limit")
TEXTS = [
    ("1.1.1.json", "1.1.1-default.txt", GpustatOptions()),
    ("1.1.1.json", "1.1.1-pcu.txt", PCU),
    ("1.1.1.json", "1.1.1-pcu.ansi.txt", replace(PCU, colour=True)),
    ("1.1.1.json", "1.1.1-a.txt", ALL),
    ("1.1.1.json", "1.1.1-full.txt", replace(ALL, full_command=True)),
    ("1.1.1.json", "1.1.1-P-draw.txt", GpustatOptions(power="draw")),
    ("1.1.1.json", "1.1.1-gpuname-width-10.txt", GpustatOptions(name_width=10)),
    (
        "1.1.1.json",
        "1.1.1-no-header-no-processes.txt",
        GpustatOptions(header=False, processes=False),
    ),
    ("1.1.1-lost-gpu.json", "1.1.1-lost-gpu.txt", PCU),
    ("1.1.1-na-values.json", "1.1.1-na-values.txt", ALL),
]


def read(name: str, host: str = "cml10") -> Snapshot:
    (decoded,) = codec.decode_gpustat(seed_sample(name), host, NOON)
    assert isinstance(decoded, Snapshot)
    return decoded


def crowd(card: Gpu) -> list[tuple[str | None, str | None, int, int]]:
    return [
        (one.user, one.name, one.pid, (one.gpu_memory_bytes or 0) // MIB)
        for one in card.processes or ()
    ]


@pytest.mark.parametrize(
    "name, program",
    [
        ("gpustat/gpustat-0.3.2-pcu.ansi.txt", "python3"),
        ("gpustat/gpustat-0.3.2-pcu.txt", "python3"),
        ("gpustat/gpustat-0.3.2.json", "python3"),
        ("gpustat/gpustat-1.1.1-a.txt", "python"),
        ("gpustat/gpustat-1.1.1-full.txt", "python"),
        ("gpustat/gpustat-1.1.1-pcu.ansi.txt", "python"),
        ("gpustat/gpustat-1.1.1-pcu.txt", "python"),
        ("gpustat/gpustat-1.1.1.json", "python"),
        ("nfs-status-gpu/cml10", "python3"),
        ("nfs-status-gpu/cml16", "python"),
    ],
)
def test_every_format_decodes_to_the_same_machine(name: str, program: str) -> None:
    first, second, third, fourth = read(name).gpus
    assert [card.index for card in (first, second, third, fourth)] == [0, 1, 2, 3]
    assert [card.temperature_celsius for card in (first, second, third)] == [34, 71, 52]
    assert [card.busy_percent for card in (first, second, third, fourth)] == [0, 97, 43, 0]
    assert [card.name for card in (first, fourth)] == [
        "NVIDIA GeForce RTX 3090",
        "NVIDIA A100-SXM4-80GB",
    ]
    assert (fourth.memory_used_bytes, fourth.memory_total_bytes) == (9004 * MIB, 81920 * MIB)
    assert crowd(second) == [("alice", program, 11108, 11264), ("bob", program, 11109, 2310)]
    assert crowd(third) == [("alice", program, 11110, 40960), ("carol", program, 11112, 512)]
    assert [judge_once(card).state for card in (first, second, third, fourth)] == [
        "free",
        "busy",
        "busy",
        "ghost",
    ]


@pytest.mark.parametrize("document, text, options", TEXTS, ids=[text for _, text, _ in TEXTS])
def test_text_is_written_as_gpustat_writes_it(
    document: str, text: str, options: GpustatOptions
) -> None:
    wanted = seed_sample(f"gpustat/gpustat-{text}").decode()
    date = re.search(r"Sun \S+ \d+ [\d:]+ 2026", wanted)
    # Grey is faint here: bold black is the background of many a terminal.
    wanted = wanted.replace("\x1b[1m\x1b[30m", "\x1b[2m")
    node = read(f"gpustat/gpustat-{document}")
    assert codec.node_text(node, date[0] if date else "", options) == wanted


@pytest.mark.parametrize("name", ["1.1.1", "1.1.1-lost-gpu", "1.1.1-na-values"])
def test_json_is_written_as_gpustat_writes_it(name: str) -> None:
    body = seed_sample(f"gpustat/gpustat-{name}.json")
    document = msgspec.json.decode(body)
    written = codec.node_json(read(f"gpustat/gpustat-{name}.json"), document["query_time"])
    assert _joined(msgspec.json.decode(written)) == _joined(document)
    assert written.startswith(body[:400])


def _joined(value: Any) -> Any:
    """Where a command was cut into words is not known of a command line."""
    if isinstance(value, list):
        texts = value and all(isinstance(each, str) for each in value)
        return " ".join(value) if texts else [_joined(each) for each in value]
    return {key: _joined(each) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("form", ["txt", "json"])
def test_the_lost_gpu_is_broken_and_the_others_are_there(form: str) -> None:
    cards = read(f"gpustat/gpustat-1.1.1-lost-gpu.{form}").gpus
    assert [judge_once(card).state for card in cards] == ["free", "busy", "broken", "ghost"]


def test_values_that_are_not_supported_are_unknown() -> None:
    for form in ("txt", "json"):
        _, second, third, _ = read(f"gpustat/gpustat-1.1.1-na-values.{form}").gpus
        assert (second.power_watts, third.busy_percent, third.fan_percent) == (None, None, None)


def test_samples_without_gpus_and_of_selected_gpus_are_decoded() -> None:
    assert read("gpustat/gpustat-1.1.1-zero-gpus.txt").gpus == ()
    assert [card.index for card in read("gpustat/gpustat-1.1.1-id-1,3.txt").gpus] == [1, 3]


@pytest.mark.parametrize(
    "name, kind, message",
    [
        ("nfs-status-gpu/cml14", EmptyReport, "is empty"),
        ("nfs-status-gpu/cml19", TruncatedReport, "half an escape code"),
        ("gpustat/gpustat-1.1.1-no-driver.stdout.txt", EmptyReport, "is empty"),
        ("gpustat/gpustat-1.1.1-no-driver.stderr.txt", Undecodable, "NVML Shared Library Not"),
    ],
)
def test_truncated_and_foreign_output_is_reported_as_such(
    name: str, kind: type[DeliveryError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read(name)


@pytest.mark.parametrize("name", ["gpustat.txt", "gpustat.ansi"])
def test_what_gpustat_web_serves_is_its_hosts_and_its_failures(name: str) -> None:
    host, failed = codec.decode_gpustat(seed_sample(f"gpustat-web/{name}"), "gpustat", NOON)
    assert isinstance(host, Snapshot)
    assert (host.name, len(host.gpus), host.gpus[1].power_watts) == ("gpu01", 4, 341)
    assert isinstance(failed, Unreachable)
    assert failed.node == "127.0.0.1"
