"""The wheelhouse: wheels that are built from what is installed, and those that are added."""

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fleet_smi import __version__
from fleet_smi.cli.wheelhouse import describe
from fleet_smi.hub.wheel_builder import build_installed_wheel, build_own_wheel
from fleet_smi.hub.wheelhouse import Wheelhouse
from tests.cli.program import run_fleet_smi

OTHER = "msgspec-{}-cp310-cp310-musllinux_1_2_aarch64.whl"


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "wheelhouse")


def test_a_wheel_has_the_same_bytes_whenever_it_is_built() -> None:
    first = build_own_wheel(), build_installed_wheel("msgspec")
    build_own_wheel.cache_clear()
    build_installed_wheel.cache_clear()
    assert (build_own_wheel(), build_installed_wheel("msgspec")) == first


def test_pip_accepts_what_was_built(wheelhouse: Wheelhouse, tmp_path: Path) -> None:
    names = [str(tmp_path / "wheelhouse" / wheel.name) for wheel in wheelhouse.list_wheels()]
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*pip, "--no-compile", "--disable-pip-version-check", "--target", str(target), *names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    program = "import fleet_smi, msgspec, pynvml; print(fleet_smi.__version__, fleet_smi.__file__)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{__version__} {target}/fleet_smi/__init__.py\n"
    licences = [path for path in target.rglob("*") if path.name.upper().startswith("LICENSE")]
    assert len(licences) >= 2


def test_only_wheels_of_an_agent_are_added_and_former_versions_removed(
    wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    version = next(
        wheel.name.split("-")[1]
        for wheel in wheelhouse.list_wheels()
        if wheel.name.startswith("msgspec")
    )
    for bad in ("../x.whl", "requests-1.0-py3-none-any.whl", "msgspec-1.0.whl", "hub.db"):
        assert not wheelhouse.add(bad, b"")
    for added in (OTHER.format(version), OTHER.format("0.0.1")):
        assert wheelhouse.add(added, b"wheel")
    again = Wheelhouse(tmp_path / "wheelhouse").list_wheels()
    names = [wheel.name for wheel in again]
    assert OTHER.format(version) in names
    assert OTHER.format("0.0.1") not in names
    assert f"msgspec {version} on aarch64 (musl): Python 3.10" in describe(again)
    # As the Debian package makes it, for several versions of Python.
    many = OTHER.format(version).replace("cp310-cp310", "cp310.cp313-cp310.cp313")
    assert wheelhouse.add(many, b"wheel")
    lines = describe(wheelhouse.list_wheels())
    assert f"msgspec {version} on aarch64 (musl): Python 3.10, 3.13" in lines
    assert wheelhouse.read("hub.db") is None
    (own,) = [name for name in names if name.startswith("fleet_smi-")]
    body = wheelhouse.read(own)
    assert body is not None
    assert "fleet_smi/__main__.py" in zipfile.ZipFile(io.BytesIO(body)).namelist()


def test_an_admin_adds_the_wheels_of_a_folder(tmp_path: Path) -> None:
    folder, state = tmp_path / "wheels", tmp_path / "hub"
    folder.mkdir()
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    flags = ("--state", str(state), "--from", str(folder))
    empty = run_fleet_smi("hub", "wheelhouse", *flags, env=env)
    assert empty.returncode == 2
    assert "has no wheel of msgspec" in empty.stderr
    own = build_installed_wheel("msgspec")
    (folder / own.name.replace(own.name.split("-")[2], "cp310")).write_bytes(own.body)
    done = run_fleet_smi("hub", "wheelhouse", *flags, env=env)
    assert done.returncode == 0, done.stderr
    assert "Python 3.10" in done.stdout
    # What is there is not fetched again: no package index answers here.
    machine = re.sub(r".*_(x86_64|aarch64)\.whl", r"\1", own.name)
    (folder / "tomli-2.5.0-py3-none-any.whl").write_bytes(b"wheel")
    assert run_fleet_smi("hub", "wheelhouse", *flags, env=env).returncode == 0
    there = ("--state", str(state), "--python", "3.10", "--platform", machine)
    offline = env | {"PIP_INDEX_URL": "http://127.0.0.1:9/"}
    known = run_fleet_smi("hub", "wheelhouse", *there, env=offline)
    assert (known.returncode, "msgspec==" in known.stderr) == (0, False)
    missing = run_fleet_smi("hub", "wheelhouse", *there[:3], "3.12", *there[4:], env=offline)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "msgspec==" in missing.stderr
    state_flag = ("--state", str(state))
    wrong = run_fleet_smi("hub", "wheelhouse", *state_flag, "--python", "3", env=env)
    assert wrong.returncode == 2
    assert wrong.stderr.endswith("--python: '3' is not a list of versions like 3.10,3.11\n")
