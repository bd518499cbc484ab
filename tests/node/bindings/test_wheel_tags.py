"""Which wheels an interpreter can use, by their names."""

import os
import platform
import sys
import sysconfig

import pytest

from fleet_smi.node.bindings import wheel_tags
from fleet_smi.node.bindings.wheel_tags import InstallError, Wheel, choose_wheels, fits

CASES = [
    # Python, machine, C library, tags, whether they fit
    ((3, 10), "x86_64", "glibc 2.35", "py3-none-any", True),
    ((3, 10), "x86_64", "glibc 2.35", "py2.py3-none-any", True),
    ((3, 10), "x86_64", "glibc 2.35", "cp310-cp310-manylinux_2_17_x86_64", True),
    ((3, 10), "x86_64", "glibc 2.35", "cp311-cp311-manylinux_2_17_x86_64", False),
    ((3, 10), "aarch64", "glibc 2.35", "cp310-cp310-manylinux_2_17_x86_64", False),
    ((3, 12), "aarch64", "glibc 2.35", "cp312-cp312-manylinux2014_aarch64", True),
    ((3, 12), "x86_64", "glibc 2.17", "cp312-cp312-manylinux_2_28_x86_64", False),
    (
        (3, 12),
        "x86_64",
        "glibc 2.17",
        "cp312-cp312-manylinux2014_x86_64.manylinux_2_28_x86_64",
        True,
    ),
    ((3, 12), "x86_64", "", "cp312-cp312-manylinux_2_17_x86_64", False),
    ((3, 12), "x86_64", "", "cp312-cp312-musllinux_1_2_x86_64", True),
    ((3, 12), "x86_64", "glibc 2.36", "cp312-cp312-musllinux_1_2_x86_64", False),
    ((3, 12), "x86_64", "glibc 2.36", "cp310-abi3-manylinux_2_17_x86_64", True),
    ((3, 10), "x86_64", "glibc 2.36", "cp311-abi3-manylinux_2_17_x86_64", False),
    ((3, 12), "x86_64", "glibc 2.36", "cp312-cp312-linux_x86_64", True),
    ((3, 12), "x86_64", "glibc 2.36", "cp312-cp312-macosx_11_0_x86_64", False),
    ((3, 13), "x86_64", "glibc 2.36", "cp313-cp313t-manylinux_2_17_x86_64", False),
]


@pytest.mark.parametrize(("version", "machine", "libc", "tags", "expected"), CASES)
def test_a_wheel_fits_by_its_tags(
    version: tuple[int, int],
    machine: str,
    libc: str,
    tags: str,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(os, "confstr", lambda _: libc or None)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: None)
    assert fits(f"msgspec-0.22.0-{tags}.whl") is expected


def test_a_build_without_a_lock_takes_its_own_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: 1)
    machine = platform.machine()
    assert fits(f"msgspec-1-cp314-cp314t-linux_{machine}.whl")
    assert not fits(f"msgspec-1-cp314-cp314-linux_{machine}.whl")


def test_what_is_missing_is_named_with_the_version_of_the_others() -> None:
    wheels = [
        Wheel("fleet_smi-1.2-py3-none-any.whl", "a"),
        Wheel("msgspec-0.22.0-cp27-cp27-linux_sparc.whl", "b"),
        Wheel("nvidia_ml_py-13-py3-none-any.whl", "c"),
    ]
    chosen, missing = choose_wheels(wheels)
    assert [wheel.project for wheel in chosen] == ["fleet_smi", "nvidia_ml_py"]
    assert missing[0] == "msgspec==0.22.0"
    with pytest.raises(InstallError, match="no wheel of fleet-smi itself"):
        choose_wheels(wheels[1:])
    assert set(wheel_tags.PROJECTS) >= {"fleet_smi", "msgspec", "nvidia_ml_py"}
