"""The files of a release: what is in them, and that they install where nothing else is."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from fleet_smi import __version__
from release import sbom
from release.dist import CHECKSUMS, build, make_dist
from release.lock import pinned_versions
from release.notes import release_notes
from tests.cli.program import NO_HUB_HERE, assert_error_line
from tests.install.environments import PROJECT, VERSIONS, download_wheels, find_python

TOOLS = ("uv", "uvx", "pipx")
NEEDED = ("sh", "dirname", "realpath", "env")
"""What the scripts that pip and uv write for a command need."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release, made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "release"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "dist" / CHECKSUMS).exists():
            make_dist(folder / "dist")
    return folder / "dist"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without network, make, Node and compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = [str(Path(sys.executable).with_name(tool)) for tool in TOOLS]
    programs += [found for name in NEEDED if (found := shutil.which(name))]
    for program in programs:
        (folder / Path(program).name).symlink_to(program)
    (folder / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
    wheels = str(download_wheels())
    return {
        **NO_HUB_HERE,
        "PATH": str(folder),
        "HOME": str(tmp_path),
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": wheels,
        "UV_PYTHON_DOWNLOADS": "never",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels,
    }


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def run(*command: str, env: dict[str, str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        [shutil.which(command[0], path=env["PATH"]) or command[0], *command[1:]],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    listed = dict(line.split()[::-1] for line in (dist / CHECKSUMS).read_text().splitlines())
    files = {path.name: path for path in dist.iterdir() if path.name != CHECKSUMS}
    assert len(files) == 3
    assert listed == {name: sha256(each.read_bytes()).hexdigest() for name, each in files.items()}


def test_the_wheel_has_the_page_and_nothing_beside_the_package(dist: Path) -> None:
    names = ZipFile(only(dist, "*.whl")).namelist()
    assert "fleet_smi/server/page/index.html" in names
    assert sum(name.startswith("fleet_smi/server/page/assets/") for name in names) > 10
    assert {name.partition("/")[0] for name in names} == {
        "fleet_smi",
        f"fleet_smi-{__version__}.dist-info",
    }
    assert not [name for name in names if name.endswith((".pyc", ".map"))]


def test_the_wheel_of_this_tree_is_that_of_the_source_distribution(
    dist: Path, tmp_path: Path
) -> None:
    assert build("wheel", PROJECT, tmp_path).read_bytes() == only(dist, "*.whl").read_bytes()


def test_the_source_builds_offline_with_what_it_declares(
    dist: Path, machine: dict[str, str], tmp_path: Path
) -> None:
    source = str(only(dist, "*.tar.gz"))
    run("uv", "build", "--wheel", "--out-dir", str(tmp_path / "built"), source, env=machine)
    assert only(tmp_path / "built", "*.whl").read_bytes() == only(dist, "*.whl").read_bytes()
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "hatch_build.py", "web/build.py", "requirements/lock/all.txt"} <= names


def test_it_runs_from_the_wheel_with_uv(dist: Path, machine: dict[str, str]) -> None:
    wheel = str(only(dist, "*.whl"))
    version = run("uvx", "--from", wheel, "fleet-smi", "--version", env=machine)
    assert version == f"fleet-smi {__version__}\n"
    run("uv", "tool", "install", wheel, env=machine)
    assert_installed(Path(machine["HOME"]) / ".local/bin", machine, "uv tool install", wheel)


def test_it_is_installed_with_pipx(dist: Path, machine: dict[str, str], tmp_path: Path) -> None:
    machine |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "commands")}
    wheel = str(only(dist, "*.whl"))
    run("pipx", "install", wheel, env=machine)
    assert_installed(tmp_path / "commands", machine, "pipx install --force", wheel)


def assert_installed(folder: Path, env: dict[str, str], installer: str, wheel: str) -> None:
    """Check that the command runs, and says how that installer adds an extra."""
    command = str(folder / "fsmi")
    assert "fleet-smi" in run(command, env=env)
    done = subprocess.run([command, "up"], env=env, capture_output=True, text=True, check=False)
    assert_error_line(done, 2, f": {installer} 'fleet-smi[hub] @ file://{wheel}'")


def test_the_bill_of_materials_lists_every_package(dist: Path) -> None:
    text = only(dist, "*.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    purls = set(re.findall(r'"purl": "([^"]+)"', text))
    pinned = {f"pkg:pypi/{name}@{number}" for name, number in pinned_versions("all").items()}
    assert pinned < purls
    sources = (PROJECT / "web/src").rglob("*.*")
    imported = re.findall(r'from "([a-z][^./"]*)', "".join(path.read_text() for path in sources))
    assert set(imported) <= set(sbom._PAGE_LIBRARIES)
    assert sbom.make_sbom(__version__) == text


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    changelog = "# Changes\n\n## Unreleased\n\n## 1.2.3, today\n\n- New.\n\n## 1.2.2\n\n- Old.\n"
    assert release_notes("v1.2.3", "1.2.3", changelog) == "- New.\n"
    for tag, version in (("v1.2.4", "1.2.3"), ("v1.2.4", "1.2.4")):
        with pytest.raises(ValueError, match=f"{version}"):
            release_notes(tag, version, changelog)


def test_the_release_workflow_runs_commands_of_this_project() -> None:
    workflow = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = "\n".join(step.get("run", "") for step in steps)
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)$", commands, re.MULTILINE)) == {"dist"} <= {*targets}
    assert (PROJECT / ".ci/run").stat().st_mode & 0o111
    assert ".ci/run\n" in commands and "-m release.notes" in commands
    # Only the jobs that publish may write, and they run nothing of this repository.
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["build"]
    for job in ("pypi", "page"):
        used = [step.get("uses", "") for step in workflow["jobs"][job]["steps"]]
        assert not [each for each in used if "checkout" in each]


def test_the_supported_versions_are_those_of_the_metadata() -> None:
    text = (PROJECT / "pyproject.toml").read_text()
    assert tuple(re.findall(r"Python :: (3\.\d+)", text)) == VERSIONS
    assert f'requires-python = ">={VERSIONS[0]}"' in text
    assert find_python(f"{sys.version_info[0]}.{sys.version_info[1]}")
