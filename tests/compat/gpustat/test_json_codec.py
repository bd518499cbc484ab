"""Decoding `gpustat --json` of every version."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.gpustat import codec
from fleet_smi.errors import TruncatedReport, Undecodable
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import MIB
from tests.builders import NOON

CARD = {
    "index": 1,
    "uuid": "GPU-3aa99ee1",
    "name": "NVIDIA GeForce RTX 3090",
    "temperature.gpu": 71,
    "fan.speed": None,
    "utilization.gpu": 97,
    "power.draw": None,
    "enforced.power.limit": 350,
    "memory.used": 13578,
    "memory.total": 24576,
    "processes": [
        {
            "username": "bob",
            "command": "python",
            "full_command": ["python", "evaluate.py", "--token=abcdef0123456789"],
            "gpu_memory_usage": 2310,
            "cpu_percent": 12.5,
            "cpu_memory_usage": 8421376,
            "pid": 30682,
        }
    ],
}
OLD = {
    "index": "1",
    "uuid": "GPU-3aa99ee1",
    "name": "GeForce GTX 1080",
    "temperature.gpu": "71",
    "utilization.gpu": "97",
    "memory.used": "13578",
    "memory.total": "24576",
    "processes": [{"pid": "11108", "used_memory": "11264", "user": "alice", "comm": "python3"}],
}


def document(*gpus: Any, **fields: Any) -> bytes:
    return msgspec.json.encode({"hostname": "cml10", "gpus": gpus} | fields)


def read(body: bytes) -> Snapshot:
    (decoded,) = codec.decode_gpustat(body, "cml10", NOON)
    assert isinstance(decoded, Snapshot)
    return decoded


def read_gpu(gpu: Any) -> Gpu:
    (decoded,) = read(document(gpu)).gpus
    return decoded


def test_numbers_are_figures_and_null_is_unknown() -> None:
    gpu = read_gpu(CARD)
    assert (gpu.uuid, gpu.uuid_is_made, gpu.index) == ("GPU-3aa99ee1", False, 1)
    assert (gpu.temperature_celsius, gpu.busy_percent, gpu.fan_percent) == (71, 97, None)
    assert (gpu.power_watts, gpu.power_limit_watts) == (None, 350)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (13578 * MIB, 24576 * MIB)


def test_a_process_is_read_whole_and_without_its_secrets() -> None:
    (process,) = read_gpu(CARD).processes or ()
    assert (process.pid, process.user, process.name) == (30682, "bob", "python")
    assert process.command == "python evaluate.py --token=•••"
    assert (process.cpu_percent, process.host_memory_bytes) == (12.5, 8421376)


def test_the_texts_of_0_3_are_the_same_numbers() -> None:
    gpu = read_gpu(OLD)
    assert (gpu.index, gpu.temperature_celsius, gpu.busy_percent) == (1, 71, 97)
    (process,) = gpu.processes or ()
    assert (process.pid, process.user, process.name) == (11108, "alice", "python3")
    assert process.gpu_memory_bytes == 11264 * MIB


@pytest.mark.parametrize("listed, processes", [(None, None), ([], ()), ("many", None)])
def test_a_missing_process_list_is_unknown_and_an_empty_one_is_empty(
    listed: Any, processes: tuple[()] | None
) -> None:
    assert read_gpu(CARD | {"processes": listed}).processes == processes


def test_of_a_lost_gpu_only_its_place_is_known() -> None:
    gpu = read_gpu({"index": 2, "name": "((GPU is lost))", "processes": None})
    assert gpu.fault is not None
    assert (gpu.index, gpu.fault.kind, gpu.uuid_is_made) == (2, "lost", True)


def test_who_may_not_be_seen_is_hidden_and_not_dropped() -> None:
    unseen = {"username": None, "command": "?", "full_command": ["?"], "gpu_memory_usage": 5}
    (process,) = read_gpu(CARD | {"processes": [unseen]}).processes or ()
    assert (process.hidden, process.command, process.pid_is_made) == (True, None, True)


@pytest.mark.parametrize("odd", [7, None, "GPU", []])
def test_one_odd_gpu_hides_no_other(odd: Any) -> None:
    first, second = read(document(odd, CARD)).gpus
    assert first.fault is not None
    assert second.fault is None


@pytest.mark.parametrize("value", [-1, 2**40, 1e30, True, {}, [1], "many"])
def test_what_cannot_be_is_unknown(value: Any) -> None:
    gpu = read_gpu(CARD | {"memory.used": value, "utilization.gpu": value})
    assert (gpu.memory_used_bytes, gpu.busy_percent) == (None, None)


@pytest.mark.parametrize(
    "body, kind, message",
    [
        (document(CARD)[:-20], TruncatedReport, "it breaks off"),
        (b"{", TruncatedReport, "it breaks off"),
        (b'{"hostname": }', Undecodable, "not JSON"),
        (b'{"gpus": 3}', Undecodable, "no list of GPUs"),
        (b"[]", Undecodable, "empty list"),
        (b"[1]", Undecodable, "no list of GPUs"),
        (b'[{"gpus": []}, {"gpus": []}]', Undecodable, "has no name"),
        (b"[" * 100_000, Undecodable, "nested too deep"),
    ],
)
def test_truncated_and_foreign_output_is_reported_as_such(
    body: bytes, kind: type[Undecodable], message: str
) -> None:
    with pytest.raises(Undecodable, match=message) as caught:
        read(body)
    assert type(caught.value) is kind


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
)
FUZZED = st.dictionaries(st.sampled_from([*CARD, *OLD]), ANYTHING)


@given(st.lists(FUZZED, max_size=3), FUZZED)
def test_whatever_a_document_says_it_is_read_or_refused(gpus: list[Any], process: Any) -> None:
    body = msgspec.json.encode({"gpus": [*gpus, CARD | {"processes": [process]}]})
    assert len(read(body).gpus) == len(gpus) + 1
