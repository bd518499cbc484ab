"""Architecture rules: registries match the files, file sizes, import costs."""

import ast
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import fleet_smi
from fleet_smi.cli.main import COMMANDS, build_parser
from fleet_smi.config.settings import HubSettings
from fleet_smi.hub.sources import SOURCES as HUB_SOURCES
from fleet_smi.hub.sources import load_file_decoder
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.snapshot import Vendor
from fleet_smi.model.view_options import SORT_KEYS
from fleet_smi.node.collector import load_collector
from fleet_smi.node.collectors import ALL_SUBJECTS, COLLECTORS
from fleet_smi.node.outlets import OUTLETS
from fleet_smi.node.reader_worker import BINDINGS, load_binding
from fleet_smi.server.listeners import LISTENERS
from fleet_smi.server.routes import ROUTES

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src/fleet_smi"
MOST_LINES = 350
SOURCES = sorted(SOURCE.rglob("*.py"))


def modules_in(folder: str) -> set[str]:
    return {path.stem for path in (SOURCE / folder).glob("*.py") if path.stem != "__init__"}


def test_every_collector_file_is_listed_under_its_own_name() -> None:
    names = [entry.name for entry in COLLECTORS]
    assert set(names) == modules_in("node/collectors")
    assert all(load_collector(name).name == name for name in names)


def test_every_binding_of_the_registry_can_be_loaded() -> None:
    assert all(callable(load_binding(subject)) for subject in BINDINGS)
    assert {entry.fallback_for for entry in COLLECTORS} <= {None, *ALL_SUBJECTS}


def test_every_command_file_is_listed_under_its_own_name() -> None:
    assert set(COMMANDS) == modules_in("cli/commands")


def test_every_source_file_is_registered_under_its_own_name() -> None:
    assert {*modules_in("hub/sources")} - {"polling", "blocking_worker"} <= set(HUB_SOURCES)
    for name, entry in HUB_SOURCES.items():
        module = import_module(entry.module)
        assert hasattr(module, "create_sources") == bool(entry.enabled_by)
        assert set(entry.enabled_by) <= set(HubSettings.__struct_fields__)
        if entry.module.startswith("fleet_smi.hub.sources."):
            assert entry.module == f"fleet_smi.hub.sources.{name}"
    assert load_file_decoder() is not None


def test_every_outlet_file_is_registered_under_its_own_name() -> None:
    room = "fleet_smi.node.outlets."
    ours = {outlet.name for outlet in OUTLETS if outlet.module == room + outlet.name}
    assert ours == modules_in("node/outlets")
    assert all(callable(import_module(outlet.module).create_outlet) for outlet in OUTLETS)


def test_every_route_file_is_listed() -> None:
    listed = {module.removeprefix("fleet_smi.server.routes.") for module in ROUTES}
    assert modules_in("server/routes") == {name for name in listed if "." not in name}
    assert len(listed) == len(ROUTES)


def test_every_listener_can_be_created() -> None:
    for entry in LISTENERS.values():
        assert hasattr(import_module(entry.module), "create_listener")
        assert entry.enabled_by in HubSettings.__struct_fields__


def test_only_the_registries_name_the_older_systems() -> None:
    importing = [
        str(path.relative_to(SOURCE))
        for path in SOURCES
        if "compat" not in path.relative_to(SOURCE).parts
        and any("compat" in name.split(".") for name in imported_names(path))
    ]
    assert not importing


def imported_names(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_says_what_it_is_and_stays_small(path: Path) -> None:
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, "the first line says what the file is"
    assert len(docstring.splitlines()[0]) <= 100
    assert len(text.splitlines()) <= MOST_LINES


def test_tests_are_in_the_folders_of_what_they_test() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    tested = {path.name for path in (PROJECT / "tests").iterdir() if path.is_dir()}
    assert rooms <= tested


def test_no_two_public_classes_have_one_name() -> None:
    files: dict[str, list[Path]] = defaultdict(list)
    for path in SOURCES:
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                files[statement.name].append(path)
    assert not [(name, found) for name, found in files.items() if len(found) > 1]


def test_there_is_no_catch_all_module() -> None:
    assert not [path for path in SOURCES if path.stem in ("utils", "util", "helpers", "common")]


def imported_by(*arguments: str) -> set[str]:
    program = (
        "import sys\nfrom fleet_smi.cli.main import main\n"
        f"try: main({list(arguments)!r})\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


def test_the_quick_commands_import_nothing_slow() -> None:
    slow = {"pathlib", "rich", "psutil", "httpx", "pynvml", "dataclasses", "subprocess", "asyncio"}
    slow |= {"hashlib", "logging", "threading"}
    for command in ((), ("free",), ("who",)):
        assert not imported_by(*command) & slow, command


def test_help_does_not_touch_the_machine() -> None:
    for flag in ("--help", "--version"):
        assert not imported_by(flag) & {"fleet_smi.local", "msgspec"}


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert version("fleet-smi") == fleet_smi.__version__


def test_pinned_requirements_contain_no_urls() -> None:
    pins = list((PROJECT / "requirements").rglob("*.txt"))
    assert len(pins) > 5
    assert all("://" not in path.read_text() for path in pins)


def test_the_choices_of_the_flags_are_those_of_the_model() -> None:
    def choices(command: str, flag: str) -> tuple[str, ...]:
        actions = build_parser(command)._option_string_actions
        return tuple(actions[flag].choices or ())

    assert choices("free", "--policy") == tuple(POLICIES)
    assert choices("free", "--vendor") == get_args(Vendor)
    assert choices("status", "--sort") == tuple(SORT_KEYS)
