"""What the tools and drivers of this machine print, and the names that are private here.

Read by `fleet-smi capture` alone, for people who look into a problem.
"""

import os
import time
from typing import Any

from fleet_smi.errors import CollectError
from fleet_smi.node.bindings import drm, nvidia_kernel
from fleet_smi.node.bindings.proc_files import read_text
from fleet_smi.node.bindings.program import run_programs

# Below the deadline of a reader, with the time that it takes to kill the programs.
_MAX_SECONDS = 7.0
_MAX_OUTPUT_CHARACTERS = 1 << 20
_FIGURES = (
    "index,pci.bus_id,name,driver_version,vbios_version,compute_mode,pstate,utilization.gpu,"
    "memory.used,memory.total,power.draw,temperature.gpu"
)
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "nvidia-smi": (
        ("-q", "-x"),
        ("-L",),
        (f"--query-gpu={_FIGURES}", "--format=csv"),
        ("topo", "-m"),
    ),
    "amd-smi": (
        ("version", "--json"),
        ("static", "--json"),
        ("metric", "--json"),
        ("process", "--json"),
    ),
    "rocm-smi": (("--showallinfo", "--json"),),
    "xpu-smi": (
        ("-v",),
        ("discovery", "-j"),
        ("dump", "-d", "-1", "--metrics", "0,1,2,3,4,17,18", "-n", "1"),
    ),
}
"""Program -> the arguments of each call; none of them changes anything."""
_FILES = (
    "etc/os-release",
    "proc/version",
    "proc/driver/nvidia/version",
    "sys/module/nvidia/version",
    "sys/module/amdgpu/version",
)
_FIRST_PERSON = 1000


def read(
    root: str = "/", folders: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the output of each command and file, and the private `names` of this machine.

    `folders` are searched for programs beside the PATH; those in `without` are not run.
    """
    deadline = time.monotonic() + _MAX_SECONDS
    outputs: dict[str, dict[str, Any]] = {}
    # They would wake a GPU that sleeps.
    may_run = not _has_sleeping_gpu(root)
    for program, calls in COMMANDS.items():
        path = _find(program, folders)
        if path is not None and may_run and program not in without:
            outputs |= _run(program, path, calls, deadline)
    for name in _FILES:
        text = read_text(root, name)
        if text is not None:
            outputs[f"/{name}"] = {"text": text}
    return {"outputs": outputs, "names": _private_names(root)}


def _has_sleeping_gpu(root: str) -> bool:
    cards = [identity for identity, _, _ in drm.iter_cards(root, ("amdgpu", "i915", "xe"))]
    return any(card["asleep"] for card in [*nvidia_kernel.list_devices(root), *cards])


def _find(program: str, folders: tuple[str, ...]) -> str | None:
    places = [*os.environ.get("PATH", "").split(os.pathsep), *folders]
    paths = (os.path.join(folder, program) for folder in places if folder)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _run(
    program: str, path: str, calls: tuple[tuple[str, ...], ...], deadline: float
) -> dict[str, dict[str, Any]]:
    commands = [" ".join((program, *arguments)) for arguments in calls]
    try:
        results = run_programs([(path, *arguments) for arguments in calls], deadline, "")
    except CollectError as error:
        return {commands[0]: {"error": str(error)}}
    return {command: _output(found) for command, found in zip(commands, results, strict=True)}


def _output(found: tuple[str, int] | CollectError) -> dict[str, Any]:
    if isinstance(found, CollectError):
        return {"error": str(found)}
    text, exit_code = found
    return {"text": text[:_MAX_OUTPUT_CHARACTERS], "exit_code": exit_code}


def _private_names(root: str) -> dict[str, list[str]]:
    """Return the names of this machine, its people and their homes, as far as files say them."""
    host = os.uname().nodename
    search = [
        word
        for line in (read_text(root, "etc/resolv.conf") or "").splitlines()
        if line.startswith(("search ", "domain "))
        for word in line.split()[1:]
    ]
    people = [
        line.split(":") for line in (read_text(root, "etc/passwd", 1 << 20) or "").splitlines()
    ]
    people = [fields for fields in people if len(fields) > 5 and _is_person(fields[2])]
    home = os.environ.get("HOME", "")
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    return {
        "hosts": [host, host.partition(".")[0], (read_text(root, "etc/hostname") or ""), *search],
        "users": [user, *(fields[0] for fields in people), *_real_names(people)],
        "paths": [
            path for path in (home, *(fields[5] for fields in people)) if path.count("/") > 1
        ],
    }


def _is_person(uid: str) -> bool:
    return uid.isdecimal() and len(uid) < 10 and int(uid) >= _FIRST_PERSON and uid != "65534"


def _real_names(people: list[list[str]]) -> list[str]:
    return [name for fields in people if (name := fields[4].partition(",")[0].strip())]
