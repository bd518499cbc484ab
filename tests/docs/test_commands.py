"""Every command of the documentation is run, or belongs to a class with a reason and is parsed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.cli.main import COMMANDS, build_parser
from tests.docs.documented_commands import NOT_RUN, DocumentedCommand, documented_blocks
from tests.docs.pages import PROJECT
from tests.docs.world import DocumentedWorld

BLOCKS = dict(documented_blocks())
PARTS = 3  # each worker that takes one makes a world, which takes seconds
_CALL = re.compile(r"(?:^|[\s(]|\.venv/bin/)fleet-smi(?![\w/-])([^)|>;\"]*)")
# Commands that a hub answers, where none is named.
_OF_A_HUB = re.compile(
    r"fleet-smi (history|report|queue|nodes|reserve|wait|logout)|--at |--same-node|--ssh-line"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, sim_lib: Path) -> Iterator[DocumentedWorld]:
    opened = DocumentedWorld(tmp_path_factory.mktemp("world"), sim_lib)
    yield opened
    opened.close()


def parse(command: str) -> None:
    """Parse every call of fleet-smi in a command with its real parser."""
    if command.startswith(("kubectl ", "helm ")):
        # Elsewhere it is the name of a namespace or of a release.
        command = command.partition(" -- ")[2]
    for call in _CALL.findall(command):
        arguments = shlex.split(call)
        name = arguments.pop(0) if arguments and arguments[0] in COMMANDS else "status"
        build_parser(name).parse_args(arguments)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_command_works(world: DocumentedWorld, part: int) -> None:
    failures = []
    for name, commands in list(BLOCKS.items())[part::PARTS]:
        for command in commands:
            try:
                check(world, command)
            except (AssertionError, SystemExit) as error:
                failures.append(f"{name}: {command.text}: {error}")
    assert failures == []


def check(world: DocumentedWorld, command: DocumentedCommand) -> None:
    """Run a command, or parse what cannot be run."""
    if command.treatment == "parse":
        parse(command.text)
    elif command.treatment == "serve":
        world.serve(command.text)
    else:
        world.run(with_hub(command, world))


def with_hub(command: DocumentedCommand, world: DocumentedWorld) -> str:
    """Set the hub for a command that needs one and names none."""
    text = command.text
    if not _OF_A_HUB.search(text) or re.search(r"--(hub|ssh|dir)[ =]", text):
        return text
    return f"{world.as_alice}; {text}"


def test_most_commands_are_run_and_every_class_has_its_commands() -> None:
    commands = [command for block in BLOCKS.values() for command in block]
    run = [command for command in commands if command.treatment != "parse"]
    assert len(run) > 100
    for command in commands:
        if command.text.startswith("make "):
            target = command.text.split()[1]
            assert f"\n{target}:" in (PROJECT / "Makefile").read_text(), command
    reasons = {command.reason for command in commands}
    later = ("mcp", "join", "/install")
    unused = [
        pattern
        for pattern, reason in NOT_RUN.items()
        if reason not in reasons and not any(each in pattern for each in later)
    ]
    assert unused == []
