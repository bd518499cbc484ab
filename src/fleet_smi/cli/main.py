"""Which command is meant, and how an error reaches the user: one line, what to do, an exit code."""

import argparse
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

from fleet_smi import __version__
from fleet_smi.errors import DeliveryError, FleetError, UsageError

COMMANDS: dict[str, str] = {
    "status": "the GPUs as a table (what `fleet-smi` alone does)",
    "free": "which GPUs are free, best first, ready for CUDA_VISIBLE_DEVICES",
    "who": "people: how many GPUs each has, since when, how much of it idle",
    "history": "what happened on each GPU, as a strip of time; asks a hub",
    "report": "GPU-hours, load, idle time, energy and cost of a range; asks a hub",
    "nodes": "the machines of the fleet: how each is heard; rename, label, remove",
    "render": "the fleet as a static page for any web server; from cron, or again and again",
    "like": "what gpustat, nvgpu or cluster-smi prints, with its own flags, over this fleet",
    "up": "a hub, this machine and the page in one process",
    "hub": "the hub, which hears every node; its tokens and people",
    "agent": "report this machine to a hub, a shared folder, a pipe, or whoever asks",
    "doctor": "check this machine and say what to do",
    "migrate": "take over the settings of gpustat pages, nvgpu, cluster-smi and their like",
    "config": "the settings: show, check, or write a file to start from",
    "service": "run the agent or the hub as a service of this machine (systemd)",
    "demo": "a simulated fleet with a real hub, to see what it looks like without a GPU",
    "simulate": "a simulated fleet that reports to a hub, to see what it can bear",
    "completion": "print the tab completion of your shell",
}
"""Every command and its line in the help; a file of that name holds it."""

_TAKE_MOMENTS = ("--at", "--since", "--until")

EXIT_CODES = """\
exit codes:
  0    answered
  1    cannot be met now: not enough free GPUs, or doctor found a failure
  2    the request makes no sense: unknown flag, name or id, bad pattern, bad setting
  3    the hub, the folder of --dir or, of render, every machine is silent, or refuses
  70   a bug in fleet-smi
  130  interrupted
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help at a fixed width: asking for the terminal's would import half the library."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=96)


class CommandParser(argparse.ArgumentParser):
    """A parser that takes `--config`; so do those below it. Its errors are one line each."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Not given here must not undo what was given above.
        self.add_argument(
            "--config",
            metavar="FILE",
            type=os.path.abspath,
            default=argparse.SUPPRESS,
            help="the one settings file to read",
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; `-2h` behind a flag that takes a moment is one, and no flag."""
        words = list(sys.argv[1:] if args is None else args)
        for at in range(len(words) - 1, 0, -1):
            if (
                words[at - 1] in _TAKE_MOMENTS
                and words[at][:1] == "-"
                and words[at][1:2].isdecimal()
            ):
                words[at - 1 : at + 1] = [f"{words[at - 1]}={words[at]}"]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def build_parser(name: str) -> CommandParser:
    """The parser of one command, built from its file."""
    command = import_module(f"fleet_smi.cli.commands.{name}")
    parser = CommandParser(
        prog="fleet-smi" if name == "status" else f"fleet-smi {name}",
        description=command.HELP,
        epilog=_epilog(name, command),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    if name == "status":
        parser.add_argument("--version", action="version", version=f"fleet-smi {__version__}")
    command.add_arguments(parser)
    parser.set_defaults(config=None)
    return parser


def parse_command_line(parser: CommandParser, argv: list[str]) -> argparse.Namespace:
    """The arguments; the settings file that they name is that of the whole run."""
    args = parser.parse_args(argv)
    if file := getattr(args, "config", None):
        os.environ["FLEET_SMI_CONFIG"] = file
    return args


def _epilog(name: str, command: Any) -> str:
    parts = [f"examples:\n{command.EXAMPLES}"]
    if name == "status":
        rows = (f"  {each:<12}{line}" for each, line in COMMANDS.items())
        parts.insert(0, "commands (each has --help):\n" + "\n".join(rows) + "\n")
    return "\n".join([*parts, EXIT_CODES])


def main(argv: list[str]) -> int:
    """Run one command; never let a traceback reach the user."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # Whatever is still in the buffer must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0  # whoever reads our output has seen enough
        return _say(f"cannot go on: {error.strerror or error}", 1)
    except Exception as error:  # a bug is told in one line, not as a traceback
        if os.environ.get("FLEET_SMI_DEBUG"):
            raise
        return _say(
            f"this is a bug in fleet-smi: {error!r}; run it with FLEET_SMI_DEBUG=1 to see where",
            70,
        )
    return code


def _run(argv: list[str]) -> int:
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    elif argv[:1] == ["version"]:
        argv = ["--version"]
    name = argv[0] if argv and argv[0] in COMMANDS else "status"
    try:
        _refuse_unknown(name, argv)
        args = parse_command_line(build_parser(name), argv[1:] if argv[:1] == [name] else argv)
        code: int = import_module(f"fleet_smi.cli.commands.{name}").run(args)
    except FleetError as error:
        return _say(str(error), _code(error))
    return code


def _refuse_unknown(name: str, argv: list[str]) -> None:
    if name == "status" and argv and not argv[0].startswith("-") and argv[0] != "status":
        from difflib import get_close_matches

        close = get_close_matches(argv[0], COMMANDS, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command `{argv[0]}`; {hint}")


def _code(error: FleetError) -> int:
    if isinstance(error, DeliveryError):
        return 3
    return 2 if isinstance(error, UsageError) else 1


def _say(message: str, code: int) -> int:
    print(f"fleet-smi: {' '.join(message.split())}", file=sys.stderr)
    return code
