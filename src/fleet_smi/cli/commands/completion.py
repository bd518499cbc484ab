"""`fleet-smi completion`: tab completion, written from the parsers themselves."""

import argparse
import sys

HELP = "print the tab completion of your shell"
EXAMPLES = """\
  eval "$(fleet-smi completion bash)"                 in ~/.bashrc
  eval "$(fleet-smi completion zsh)"                  in ~/.zshrc
  fleet-smi completion fish > ~/.config/fish/completions/fleet-smi.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The one argument."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from fleet_smi.cli.main import COMMANDS, parser_of

    flags = {name: _flags(parser_of(name)) for name in COMMANDS}
    script = _fish(COMMANDS, flags) if args.shell == "fish" else _bash(COMMANDS, flags)
    if args.shell == "zsh":
        script = "autoload -U +X bashcompinit && bashcompinit\n" + script
    sys.stdout.write(script)
    return 0


def _flags(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[str]]]:
    """Each flag with its help and the values it may take."""
    return {
        flag: (action.help or "", [str(choice) for choice in action.choices or ()])
        for action in parser._actions
        for flag in action.option_strings
    }


def _bash(commands: dict[str, str], flags: dict[str, dict[str, tuple[str, list[str]]]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(flags[name])}" ;;' for name in commands)
    values = "\n".join(
        f'    {flag}) words="{" ".join(choices)}" ;;'
        for flag, choices in sorted(
            {(f, tuple(c)) for table in flags.values() for f, (_, c) in table.items() if c}
        )
    )
    return f"""\
_fleet_smi() {{
  local words command=status current="${{COMP_WORDS[COMP_CWORD]}}"
  local previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  case " {" ".join(commands)} " in *" ${{COMP_WORDS[1]}} "*) command="${{COMP_WORDS[1]}}" ;; esac
  case "$command" in
{cases}
  esac
  [ "$command" = completion ] && words="bash zsh fish $words"
  [ "$COMP_CWORD" = 1 ] && words="{" ".join(commands)} $words"
  case "$previous" in
{values}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _fleet_smi fleet-smi fsmi
"""


def _fish(commands: dict[str, str], flags: dict[str, dict[str, tuple[str, list[str]]]]) -> str:
    lines = []
    for program in ("fleet-smi", "fsmi"):
        lines.append(f"complete -c {program} -f")
        for name, help_line in commands.items():
            lines.append(
                f"complete -c {program} -n __fish_use_subcommand -a {name} -d {_quoted(help_line)}"
            )
            where = (
                "__fish_use_subcommand"
                if name == "status"
                else f"'__fish_seen_subcommand_from {name}'"
            )
            lines.extend(
                f"complete -c {program} -n {where} {_fish_flag(flag)} -d {_quoted(help_text)}"
                + (f" -xa {_quoted(' '.join(choices))}" if choices else "")
                for flag, (help_text, choices) in flags[name].items()
            )
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
