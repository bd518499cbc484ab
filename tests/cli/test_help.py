"""The help of commands and of their actions, and the name of the program in messages."""

import argparse
import sys
from pathlib import Path

import pytest

from fleet_smi.cli.main import COMMANDS, build_parser
from fleet_smi.cli.program_name import program_name

MAX_COLUMNS = 100


def actions(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of the actions of a command, like `hub token add`, at every level."""
    choices = [each.choices for each in parser._actions if isinstance(each.choices, dict)]
    values = [value for group in choices for value in group.values()]
    direct = [value for value in values if isinstance(value, argparse.ArgumentParser)]
    return [*direct, *(deeper for each in direct for deeper in actions(each))]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_says_what_the_command_does_and_fits_the_terminal(name: str) -> None:
    command = build_parser(name)
    for parser in (command, *actions(command)):
        text = parser.format_help()
        assert parser.description
        assert parser.description in text
        assert max(map(len, text.splitlines())) <= MAX_COLUMNS, parser.prog


def test_actions_have_the_same_width_of_help_as_commands() -> None:
    hub = build_parser("hub")
    (add,) = [each for each in actions(hub) if each.prog == "fleet-smi hub token add"]
    assert add.description == "create a token; it is shown only once"
    assert any(len(line) > 80 for line in add.format_help().splitlines())


def test_messages_name_the_program_as_the_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / ".venv/bin/fleet-smi"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert program_name() == str(script)
    monkeypatch.chdir(tmp_path)
    assert program_name() == ".venv/bin/fleet-smi"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program_name() == "fleet-smi"
