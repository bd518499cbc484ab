"""`fleet-smi completion`: shell completion scripts, generated from the argument parsers."""

import argparse
import sys
from typing import NamedTuple

HELP = "print a tab completion script for your shell"
EXAMPLES = """\
  eval "$(fleet-smi completion bash)"                 in ~/.bashrc
  eval "$(fleet-smi completion zsh)"                  in ~/.zshrc
  fleet-smi completion fish > ~/.config/fish/completions/fleet-smi.fish
"""
# The bash script works in zsh too, through zsh's bashcompinit.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
autoload -U +X bashcompinit && bashcompinit
"""


class _Flag(NamedTuple):
    """A flag; with `takes_value` and no `values`, any value is accepted."""

    help: str
    takes_value: bool
    values: tuple[str, ...]


class _Command(NamedTuple):
    """A command; `words` are its subcommands and the choices of its positional arguments."""

    help: str
    words: tuple[str, ...]
    flags: dict[str, _Flag]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from fleet_smi.cli.main import COMMANDS, build_parser

    commands: dict[str, _Command] = {}
    for name, line in COMMANDS.items():
        commands |= _commands(name, line, build_parser(name))
    script = _fish(commands) if args.shell == "fish" else _bash(commands)
    sys.stdout.write(_ZSH + script if args.shell == "zsh" else script)
    return 0


def _commands(path: str, line: str, parser: argparse.ArgumentParser) -> dict[str, _Command]:
    """Return the command and its subcommands at any depth, by their words: "hub token add"."""
    found = {path: _command(line, parser)}
    # Private, as below.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, subparser in action.choices.items():
                found |= _commands(f"{path} {name}", lines.get(name, ""), subparser)
    return found


def _command(line: str, parser: argparse.ArgumentParser) -> _Command:
    from fleet_smi.model.fleet import STATES

    # A comma-separated list, for which the parser itself has no choices.
    list_values: dict[str, tuple[str, ...]] = {"--state": STATES}
    words: tuple[str, ...] = ()
    flags = {}
    # Private, but argparse has no public way to list the arguments.
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        choices = tuple(str(choice) for choice in action.choices or ())
        if not action.option_strings:
            words += choices
        for flag in action.option_strings:
            values = list_values.get(flag, choices)
            flags[flag] = _Flag(action.help or "", action.nargs != 0, values)
    return _Command(line, words, flags)


def _bash(commands: dict[str, _Command]) -> str:
    names = " ".join(_top_level(commands))
    nested = "|".join([f'"{path}"' for path in commands if " " in path])
    by_command = "\n".join(
        f'    "{name}") offered="{" ".join([*command.words, *command.flags])}" ;;'
        for name, command in commands.items()
    )
    by_flag = "\n".join(
        f'    "{name} {flag}") offered="{" ".join(details.values)}" ;;'
        for name, command in commands.items()
        for flag, details in command.flags.items()
        if details.takes_value
    )
    # The case of the previous flag comes last: its values replace the commands and flags.
    return f"""\
_fleet_smi() {{
  local offered at command=status current="${{COMP_WORDS[COMP_CWORD]}}"
  local previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  case " {names} " in *" ${{COMP_WORDS[1]}} "*) command="${{COMP_WORDS[1]}}" ;; esac
  for ((at = 2; at < COMP_CWORD; at++)); do
    case "$command ${{COMP_WORDS[at]}}" in
    {nested}) command="$command ${{COMP_WORDS[at]}}" ;;
    esac
  done
  case "$command" in
{by_command}
  esac
  [ "$COMP_CWORD" = 1 ] && offered="{names} $offered"
  case "$command $previous" in
{by_flag}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -F _fleet_smi fleet-smi fsmi
"""


def _top_level(commands: dict[str, _Command]) -> list[str]:
    return [path for path in commands if " " not in path]


def _fish(commands: dict[str, _Command]) -> str:
    nested = " ".join([_quote(path) for path in commands if " " in path])
    lines = [
        "function __fleet_smi_command",
        "    set -l words (commandline -opc)",
        "    set -l command status",
        f'    contains -- "$words[2]" {" ".join(_top_level(commands))}; and set command $words[2]',
        "    if test (count $words) -gt 2",
        "        for word in $words[3..-1]",
        f'            contains -- "$command $word" {nested}; and set command "$command $word"',
        "        end",
        "    end",
        "    echo $command",
        "end",
        "complete -c fsmi -w fleet-smi",
        "complete -c fleet-smi -f",
    ]
    for name in _top_level(commands):
        lines.append(
            f"complete -c fleet-smi -n 'test (count (commandline -opc)) = 1' "
            f"-a {name} -d {_quote(commands[name].help)}"
        )
    for name, command in commands.items():
        start = f"complete -c fleet-smi -n 'test (__fleet_smi_command) = \"{name}\"'"
        if command.words:
            lines.append(f"{start} -a {_quote(' '.join(command.words))}")
        for flag, details in command.flags.items():
            values = f" -x -a {_quote(' '.join(details.values))}" if details.takes_value else ""
            lines.append(f"{start} {_fish_flag(flag)}{values} -d {_quote(details.help)}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
