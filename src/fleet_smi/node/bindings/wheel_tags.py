"""Which wheels of a hub this Python can use, by the tags in their names.

The hub's install script contains this file: it imports nothing but the standard library.
"""

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple

PROJECTS = (
    "fleet_smi",
    "msgspec",
    "nvidia_ml_py",
    *(() if sys.version_info >= (3, 11) else ("tomli",)),
)
"""What an agent needs, by the names in the files of wheels."""
_OLD_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class InstallError(Exception):
    """Why it cannot be installed, and what to do, in one line."""


class Wheel(NamedTuple):
    """A file in the hub's wheelhouse, and its checksum."""

    name: str
    sha256: str

    @property
    def project(self) -> str:
        """The project's name, as files of wheels have it."""
        return self.name.split("-")[0].lower()

    @property
    def version(self) -> str:
        """The version of the project."""
        return self.name.split("-")[1]


def parse_wheels(text: str) -> list[Wheel]:
    """The wheels in a list as `sha256sum` writes it."""
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return [Wheel(name, sha256) for sha256, name in pairs]


def choose_wheels(wheels: Sequence[Wheel]) -> tuple[list[Wheel], list[str]]:
    """The wheels that this Python can use, and the requirements for which none fits."""
    chosen: list[Wheel] = []
    missing: list[str] = []
    for project in PROJECTS:
        known = [wheel for wheel in wheels if wheel.project == project]
        fitting = [wheel for wheel in known if fits(wheel.name)]
        if fitting:
            chosen.append(fitting[-1])
        else:
            missing.append(f"{project}=={known[0].version}" if known else project)
    if not chosen or chosen[0].project != PROJECTS[0]:
        raise InstallError("the hub has no wheel of fleet-smi itself: see its log")
    return chosen, missing


def fits(name: str) -> bool:
    """Whether this interpreter can use a wheel, by the tags in its name."""
    pythons, abis, platforms = (part.split(".") for part in name[: -len(".whl")].split("-")[-3:])
    version = sys.version_info[:2]
    own = "cp{}{}".format(*version)
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    is_cpython = sys.implementation.name == "cpython"
    is_pure = "none" in abis and bool({"py3", own} & set(pythons))
    is_exact = is_cpython and own in pythons and own + threads in abis
    is_stable = is_cpython and not threads and "abi3" in abis and _oldest(pythons) <= version
    return (is_pure or is_exact or is_stable) and any(map(_platform_fits, platforms))


def _oldest(pythons: Sequence[str]) -> tuple[int, int]:
    return min((int(tag[2]), int(tag[3:])) for tag in pythons if re.fullmatch(r"cp3\d+", tag))


def _platform_fits(tag: str) -> bool:
    machine = platform.machine()
    if tag == "any":
        return True
    if not tag.endswith("_" + machine) or sys.maxsize < 1 << 32:
        return False
    family, *versions = tag[: -len(machine) - 1].split("_")
    libc, version = c_library()
    if family == "musllinux":
        return libc == "musl"
    needed = tuple(map(int, versions)) if versions else _OLD_MANYLINUX.get(family, (2, 0))
    return family == "linux" or (libc == "glibc" and version >= needed)


def c_library() -> tuple[str, tuple[int, ...]]:
    """The C library of this machine, "glibc" or "musl", and the version of glibc."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        name, version = "", ""
    if name != "glibc":
        return "musl", ()
    return name, tuple(map(int, version.split(".")[:2]))


def describe_python() -> str:
    """This interpreter and platform, as in "Python 3.10 on x86_64 with glibc 2.35"."""
    libc, version = c_library()
    shown = " ".join([libc, ".".join(map(str, version))]).strip()
    return "Python {}.{} on {} with {}".format(*sys.version_info[:2], platform.machine(), shown)
