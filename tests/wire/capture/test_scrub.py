"""Captures hold nothing private: whatever a machine and its people are called."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.errors import CollectError, UsageError
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict.readings import is_display, is_service
from fleet_smi.node.collector import load_collector
from fleet_smi.wire.capture.capture_file import (
    CapturedReading,
    CapturedSample,
    CaptureFile,
    decode_capture,
    encode_capture,
)
from fleet_smi.wire.capture.private_names import find_private_names
from fleet_smi.wire.capture.private_text import TextScrubber
from fleet_smi.wire.capture.raw_values import from_plain, to_plain
from fleet_smi.wire.capture.scrub import Scrubber
from tests.captures import capture_files, capture_text

# Long enough not to be a part of a word that a capture has anyway.
NAMES = st.from_regex(r"[a-z][a-z0-9]{1,5}q[xz][a-z0-9]{2,8}", fullmatch=True)
HEX = st.text("123456789abcdef", min_size=12, max_size=12)
PROGRAM = "train.py"


@st.composite
def machines(draw: st.DrawFn) -> dict[str, str]:
    """The private texts of one machine, by kind."""
    user, host, domain = draw(NAMES), draw(NAMES), draw(NAMES)
    assume(len({user, host, domain}) == 3)
    numbers = draw(st.tuples(*[st.integers(11, 254)] * 4))
    tail = draw(HEX)
    return {
        "user": user,
        "host": host,
        "fqdn": f"{host}.{domain}.example",
        "serial": draw(st.text("123456789", min_size=13, max_size=13)),
        "uuid": f"{tail[:8]}-{tail[:4]}-4{tail[1:4]}-a{tail[5:8]}-{tail}",
        "home": f"/home/{user}",
        "work": f"/data/{domain}/runs",
        "ipv4": ".".join(map(str, numbers)),
        "ipv6": f"2a02:{tail[:4]}:{tail[4:8]}::{tail[8:]}",
        "mac": ":".join(tail[at : at + 2] for at in range(0, 12, 2)),
        "email": f"{user}@{domain}.example",
        "token": f"--token={draw(NAMES)}",
        "container": tail * 5 + "abcd",
        "machine_id": tail + tail + tail[:8],
    }


def readings(private: dict[str, str]) -> dict[str, Any]:
    """What bindings return on such a machine."""
    everything = " ".join(private.values())
    process = {
        "uid": 1017,
        "user": private["user"],
        "group": private["user"],
        "cgroup": f"12:cpuset:/docker/{private['container']}\n"
        f"0::/user.slice/user-1017.slice/{private['user']}-run.scope",
        "slurm_job": b"4711",
        "name": PROGRAM.encode(),
        "command": f"{private['home']}/bin/{PROGRAM}\0{everything}".encode(),
        "state": "R",
    }
    xml = (
        f"<nvidia_smi_log><hostname>{private['fqdn']}</hostname><gpu id='0000:07:00.0'>"
        f"<serial>{private['serial']}</serial><uuid>GPU-{private['uuid'].upper()}</uuid>"
        f"<fb_memory_usage><used>85899345920 B</used></fb_memory_usage><user>{everything}</user>"
        f"<process_name>{private['work']}/{private['user']} tool --x</process_name></gpu>"
        f"</nvidia_smi_log>"
    )
    amd = msgspec.json.encode(
        {
            "card0": {"Serial Number": private["serial"], "Unique ID": "0x1b2c3d4e5f607182"},
            "system": {"PID77": f"{private['user']}prog, 1, 85899345920, 0, 0"},
            "process_info": {"name": f"{private['home']}/x", "pid": 77},
        }
    ).decode()
    return {
        "nvidia": {"devices": [{"values": {"uuid": f"GPU-{private['uuid']}", "memory": (1, 2)}}]},
        "nvidia_smi": {"xml": xml, "list": f"GPU 0: H100 (UUID: GPU-{private['uuid']})"},
        "amd_smi": {"texts": [f"WARNING: {private['fqdn']} says hi\n{amd}"]},
        "xpu_smi": {"texts": [f"PID  Command\n77   {private['user']}job 0"]},
        "amd": {"cards": [{"files": {"unique_id": private["machine_id"][:16] + "a"}}]},
        "host": {
            "hostname": private["fqdn"],
            "machine_id": private["machine_id"],
            "boot_id": private["uuid"],
        },
        "processes": {77: process, 78: None},
        "leases": [
            {
                "uuid": f"GPU-{private['uuid']}",
                "pid": 77,
                "uid": 1017,
                "user": private["user"],
                "changed_at": 1.0,
                "is_own": True,
                "details": {"since": "1.0", "note": everything, "command": everything},
            }
        ],
        "network": [("eth0", private["ipv4"]), ("ib0", private["ipv6"])],
        "failed": {"message": f"cannot open {private['work']}: ask {everything}"},
    }


def scrub(private: dict[str, str]) -> tuple[dict[str, Any], bytes]:
    raw = readings(private)
    listed = {"hosts": [private["host"]], "users": [private["user"]], "paths": [private["home"]]}
    scrubber = Scrubber(TextScrubber(find_private_names(listed, [raw], [])))
    clean = {name: scrubber.reading(name, value) for name, value in raw.items()}
    captured = {
        name: CapturedReading(outcome="ok", value=to_plain(value)) for name, value in clean.items()
    }
    sample = CapturedSample(at=1.0, readings=captured)
    file = encode_capture(CaptureFile(fleet_smi="1", taken_at=1.0, samples=(sample,)))
    return clean, file


@given(machines())
def test_nothing_private_survives_and_the_figures_do(private: dict[str, str]) -> None:
    clean, file = scrub(private)
    text = file.decode().lower()
    for kind, secret in private.items():
        assert secret.removeprefix("--token=").lower() not in text, kind
    assert "85899345920" in clean["nvidia_smi"]["xml"]
    assert "85899345920" in clean["amd_smi"]["texts"][0]
    # One GPU is one GPU in all of them.
    uuids = set(re.findall(r"5c5c5c5c-0000-4000-8000-[0-9a-f]{12}", str(clean["nvidia"])))
    assert len(uuids) == 1
    assert uuids.pop() in clean["leases"][0]["uuid"]
    process = clean["processes"][77]
    assert process["slurm_job"] == b"4711"
    assert process["user"] == clean["leases"][0]["user"] == "user-1"
    assert process["cgroup"].startswith("12:cpuset:/docker/0000")
    assert "/user.slice/user-10001.slice/" in process["cgroup"]
    decoded = decode_capture(file, "it").samples[0].readings
    assert from_plain(decoded["processes"].value) == clean["processes"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner)
            | st.lists(inner).map(tuple)
            | st.dictionaries(st.text() | st.integers(0, 99), inner)
        ),
    )
)
def test_raw_values_are_the_same_after_the_file(value: Any) -> None:
    plain = msgspec.json.decode(msgspec.json.encode(to_plain(value)))
    assert from_plain(plain) == value


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it breaks off"),
        (b"\xff\x00", "it is not JSON"),
        (b"[1]", "not a list"),
        (b"{}", "fleet_smi is missing"),
        (b'{"x": ' + b"[" * 100_000, "nested too deep"),
        (b'{"format": "fleet-smi-capture", "version": 99}', "newer fleet-smi"),
        (b'{"fleet_smi": "1", "taken_at": -1, "samples": []}', "no less than 0"),
        (b" " * ((16 << 20) + 1), "too large"),
    ],
)
def test_a_file_that_is_no_capture_is_refused_in_one_line(data: bytes, text: str) -> None:
    with pytest.raises(UsageError, match=text) as error:
        decode_capture(data, "x.json")
    assert "\n" not in str(error.value)


CAPTURED = {
    "nvidia/xml": "nvidia_smi",
    "nvidia/xml-mock": "nvidia_smi",
    "nvidia/xml-fragments": "nvidia_smi",
    "amd/rocm-smi-json": "rocm_smi",
}


def raw_reading(subject: str, text: str) -> dict[str, Any]:
    if subject == "nvidia_smi":
        nothing: dict[str, Any] = {"list": None, "parts": [], "failed": []}
        return {"xml": text, "exit_code": 0, "kernel_version": None, **nothing}
    return {"texts": [text]}


def parsed(subject: str, raw: dict[str, Any]) -> Any:
    """What the collector makes of a reading, without the names that are scrubbed."""
    try:
        part = load_collector(subject).parse(raw)
    except CollectError as error:
        return type(error)
    return part.host, [
        replace(
            gpu,
            uuid="",
            processes=tuple(_unnamed(one) for one in gpu.processes or ()),
            instances=tuple(replace(one, uuid="", processes=()) for one in gpu.instances),
            unread={},
        )
        for gpu in part.gpus
    ]


def _unnamed(one: Process) -> Process:
    """A process by what it means for a verdict: nobody's job, or somebody's."""
    return replace(one, name=f"{is_display(one)} {is_service(one)}", command=None)


@pytest.mark.parametrize(
    ("subject", "path"),
    [
        pytest.param(subject, path, id=path.name)
        for folder, subject in CAPTURED.items()
        for path in capture_files(folder)
    ],
)
def test_what_real_tools_printed_reads_the_same_when_it_is_scrubbed(
    subject: str, path: Path
) -> None:
    raw = raw_reading(subject, capture_text(path))
    scrubber = Scrubber(TextScrubber(find_private_names({}, [{subject: raw}], [])))
    clean = scrubber.reading(subject, raw)
    assert parsed(subject, clean) == parsed(subject, raw)
    hidden = re.findall(r"<serial>([0-9]{6,})</serial>|GPU-([0-9a-f-]{36})", str(raw))
    assert [one for pair in hidden for one in pair if one and one in str(clean)] == []
