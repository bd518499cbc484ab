"""Extras: what the light part does without them, and what each of them brings."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fleet_smi import extras
from fleet_smi.cli import main
from fleet_smi.cli.main import COMMAND_EXTRAS, COMMANDS
from fleet_smi.errors import UsageError
from release.lock import FOLDER, LOCKS, pinned_versions
from tests.cli.program import assert_error_line
from tests.docs.pages import page, table_rows
from tests.install.environments import PROJECT, THIS_VERSION, make_environment

HUB = ("hub", "--listen", "127.0.0.1:0")
ARGUMENTS = {
    "demo": ("--once",),
    "hub": ("token", "list"),
    "simulate": ("--to", "http://127.0.0.1:9"),
}
"""What a command needs to get as far as its extra."""


def run_with(
    lock: str, *arguments: str, home: Path, python_version: str = THIS_VERSION, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with nothing installed but the packages of a lock file."""
    python = make_environment(lock, python_version)
    return subprocess.run(
        [python, "-m", "fleet_smi", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "FLEET_SMI_HUB_STATE": str(home / "hub"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_every_command_has_help_without_any_extra() -> None:
    program = (
        "from fleet_smi.cli.main import COMMANDS, build_parser\n"
        "for name in COMMANDS: print(build_parser(name).format_help().splitlines()[0])"
    )
    command = [make_environment("light"), "-c", program]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout.decode().count("usage: fleet-smi") == len(COMMANDS)


@pytest.mark.parametrize("command", COMMAND_EXTRAS)
def test_a_command_without_its_extra_says_what_to_install(command: str, tmp_path: Path) -> None:
    done = run_with("light", command, *ARGUMENTS.get(command, ()), home=tmp_path)
    assert_error_line(done, 2, f"install --python {make_environment('light')} 'fleet-smi[")
    assert f"`fleet-smi {command}` needs the extra `{COMMAND_EXTRAS[command]}`" in done.stderr


USES: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "hub of render": ("hub", ("render", "--out", "site"), {"FLEET_SMI_HUB_PULL": "gpu01"}),
    "hub of service": ("hub", ("service", "install", "hub", "--dry-run"), {}),
    "zmq of agent": ("zmq", ("agent", "--cluster-smi", "old:9080", "--once"), {}),
}
HUB_USES: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "zmq of hub": ("zmq", HUB, {"FLEET_SMI_HUB_CLUSTER_SMI_NODES": "9080"}),
    "postgres": ("postgres", HUB, {"FLEET_SMI_HUB_HISTORY": "postgresql://db/fleet"}),
    "remote-write": ("remote-write", HUB, {"FLEET_SMI_HUB_REMOTE_WRITE": "http://127.0.0.1:9/"}),
    "otlp": ("otlp", HUB, {"FLEET_SMI_HUB_OTLP": "http://127.0.0.1:9/v1/metrics"}),
    "cluster": (
        "cluster",
        (*HUB, "--cluster", "nats://127.0.0.1:9"),
        {"FLEET_SMI_HUB_HISTORY": "postgresql://db/fleet"},
    ),
}


@pytest.mark.parametrize("use", [*USES, *HUB_USES])
def test_a_setting_without_its_extra_says_what_to_install(use: str, tmp_path: Path) -> None:
    extra, arguments, variables = (USES | HUB_USES)[use]
    lock = "light" if use in USES else "hub"
    if "--out" in arguments:
        arguments = (*arguments[:-1], str(tmp_path / "site"))
    done = run_with(lock, *arguments, home=tmp_path, **variables)
    assert_error_line(done, 2, f"needs the extra `{extra}`, which is not installed: ")
    assert done.stderr.endswith(f"'fleet-smi[{extra}]'\n")


def test_every_extra_is_met_by_one_of_these_tests() -> None:
    tested = {*COMMAND_EXTRAS.values(), *(extra for extra, *_ in (USES | HUB_USES).values())}
    # A cluster needs NATS and PostgreSQL, and says so at once.
    untested = {"nats", "mcp"} - COMMANDS.keys()
    assert tested | untested == {*extras.EXTRAS, "cluster"}


@pytest.mark.parametrize(
    "command", [name for name, extra in COMMAND_EXTRAS.items() if extra == "hub"]
)
def test_on_python_3_10_the_hub_says_that_it_needs_a_newer_one(
    command: str, tmp_path: Path
) -> None:
    arguments = (command, *ARGUMENTS.get(command, ()))
    done = run_with("light", *arguments, home=tmp_path, python_version="3.10")
    assert_error_line(done, 2, "needs Python 3.11 or newer; this is Python 3.10.")


def test_a_hub_runs_with_its_extra_alone(tmp_path: Path) -> None:
    done = run_with("hub", "demo", "--once", "-o", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 nodes" in done.stdout


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pipx_metadata.json", f"pipx install --force 'fleet-smi[top] @ {PROJECT.as_uri()}'"),
        ("uv-receipt.toml", f"uv tool install 'fleet-smi[top] @ {PROJECT.as_uri()}'"),
        ("debian", "sudo apt install fleet-smi-top"),
        ("pyvenv.cfg", f"{sys.executable} -m pip install 'fleet-smi[top]'"),
    ],
)
def test_the_command_to_install_is_that_of_the_installer(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert extras.install_command("top") == command


def test_a_module_that_no_extra_has_is_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> None:
        raise ModuleNotFoundError(name="no_such_module")

    monkeypatch.setattr(main, "import_module", fail)
    assert main.main(["who"]) == 70
    assert "a bug in fleet-smi" in capsys.readouterr().err


def declared(extra: str) -> set[str]:
    """The packages that pyproject.toml has for an extra, or for none, by their normal names."""
    wanted = [Requirement(line) for line in requires("fleet-smi") or ()]
    return {
        re.sub(r"[-_.]+", "-", each.name).lower()
        for each in wanted
        if (each.marker is None and not extra)
        or (each.marker and each.marker.evaluate({"extra": extra}) and extra)
    }


def test_the_light_part_needs_two_packages_and_all_has_every_extra() -> None:
    assert declared("") == {"msgspec", "nvidia-ml-py"}
    assert declared("all") == set().union(*map(declared, extras.EXTRAS))


@cache
def _packages() -> Mapping[str, list[str]]:
    return packages_distributions()


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_the_modules_of_an_extra_are_those_of_its_packages(extra: str) -> None:
    packages = _packages()
    known = {re.sub(r"[-_.]+", "-", packages[each][0]).lower() for each in extras.EXTRAS[extra]}
    assert declared(extra) == known


def test_the_table_of_the_docs_has_every_extra() -> None:
    rows = table_rows(page("docs/install.md"), "extra")
    assert {row[0].strip("`") for row in rows} == {*extras.EXTRAS, "all", "cluster"}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_pinned_versions_are_those_that_are_tested(lock: str) -> None:
    pinned = pinned_versions(lock)
    assert len(pinned) >= 2
    assert {name: _installed(name) for name in pinned} == pinned, "run `make lock`"
    by_hand = re.findall(r"^([\w.-]+)==(\S+)", (PROJECT / "requirements/run.txt").read_text(), re.M)
    assert {name: pinned[name] for name, _ in by_hand if name in pinned} == {
        name: number for name, number in by_hand if name in pinned
    }
    needed = declared("") | set().union(*(declared(extra) for extra in LOCKS[lock][1]))
    assert needed - {"fleet-smi"} <= pinned.keys(), "run `make lock`"
    assert "://" not in (FOLDER / f"{lock}.txt").read_text()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def test_an_unknown_extra_of_a_module_is_none() -> None:
    assert extras.find_extra("sqlalchemy.engine") == "hub"
    assert extras.find_extra("json") is None
    assert extras.find_extra(None) is None
    with pytest.raises(UsageError, match="needs the extra `zmq`"):
        raise extras.missing_extra("zmq", "this")
