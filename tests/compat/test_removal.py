"""fleet-smi works without `compat`: a copy without it and its registrations still delivers."""

import ast
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
COMPAT = "fleet_smi.compat."
HUB_AND_PAGE = """
import sys
from pathlib import Path
from tests.builders import gpu, snapshot
from tests.server.threaded_hub import ThreadedHub

with ThreadedHub(Path(sys.argv[1])) as hub:
    hub.join_and_report(snapshot(gpu(0), gpu(1), node="gpu01"))
    (node,) = hub.fleet().nodes
    assert (node.name, len(node.gpus)) == ("gpu01", 2), node
    page = hub.request("GET", "/", Accept="text/html")
    assert page.status == 200 and b"<!doctype html>" in page.body.lower(), page
    table = hub.request("GET", "/", Accept="*/*", User_Agent="curl/8")
    assert table.status == 200 and b"gpu01" in table.body, table
    assert hub.request("GET", "/gpu_status").status == 404
"""
IMPORT_EVERYTHING = """
import importlib, pkgutil, fleet_smi
for module in pkgutil.walk_packages(fleet_smi.__path__, "fleet_smi."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def without_compat_entries(source: str) -> str:
    """Delete the lines of each entry of a module-level registry that names a module of compat."""
    lines = source.splitlines(keepends=True)
    for statement in ast.parse(source).body:
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Dict):
            entries = [(key or item, item) for key, item in zip(value.keys, value.values)]  # noqa: B905
        elif isinstance(value, ast.Tuple):
            entries = [(item, item) for item in value.elts]
        else:
            continue
        for first, last in entries:
            if any(
                isinstance(node, ast.Constant) and str(node.value).startswith(COMPAT)
                for node in ast.walk(last)
            ):
                end = last.end_lineno or first.lineno
                lines[first.lineno - 1 : end] = [""] * (end - first.lineno + 1)
    return "".join(lines)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project without the folder `compat`, its tests and its registrations."""
    folder = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "compat", "page", "golden", "captures")
    shutil.copytree(PROJECT / "tests", folder / "tests", ignore=ignore)
    ignore = shutil.ignore_patterns("__pycache__", "compat")
    shutil.copytree(PROJECT / "src", folder / "src", ignore=ignore)
    for name in ("pyproject.toml", "sim"):
        (folder / name).symlink_to(PROJECT / name)
    for file in (folder / "src").rglob("*.py"):
        source = file.read_text()
        if f'"{COMPAT}' in source:
            file.write_text(without_compat_entries(source))
    return folder


def run_in(copy: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # PYTHONPATH comes before the installed package, so that the copy is what is imported.
    path = f"{copy / 'src'}{os.pathsep}{copy}"
    env = {**os.environ, "PYTHONPATH": path, "HOME": str(copy)}
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=copy,
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_registries_name_compat_modules_as_entries_of_their_own(copy: Path) -> None:
    left = [file for file in (copy / "src").rglob("*.py") if f'"{COMPAT}' in file.read_text()]
    assert not left


def test_every_module_imports_without_compat(copy: Path) -> None:
    done = run_in(copy, "-c", IMPORT_EVERYTHING)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(240)
def test_the_delivery_suite_the_hub_and_the_page_work_without_compat(
    copy: Path, tmp_path: Path
) -> None:
    with ThreadPoolExecutor() as pool:
        suite = pool.submit(
            run_in, copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/delivery"
        )
        hub = pool.submit(run_in, copy, "-c", HUB_AND_PAGE, str(tmp_path))
        for done in (suite.result(), hub.result()):
            assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in suite.result().stdout


def test_the_commands_work_without_compat(copy: Path, tmp_path: Path) -> None:
    shown = run_in(copy, "-m", "fleet_smi", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "--style" not in shown.stdout and "print like" not in shown.stdout
    status = run_in(copy, "-m", "fleet_smi", "status", "--here")
    assert status.returncode in (0, 1), status.stderr
    rendered = run_in(copy, "-m", "fleet_smi", "render", "--here", "--out", str(tmp_path / "www"))
    assert "bug" not in rendered.stderr
    assert [file.name for file in (tmp_path / "www").iterdir()] == ["index.html"]
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("gpu01\n")
    migrated = run_in(copy, "-m", "fleet_smi", "migrate", str(hosts))
    assert migrated.returncode == 2 and "is not a known settings file" in migrated.stderr
