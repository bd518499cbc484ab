"""Command dispatch: pick the command, build its parser, map errors to one line and an exit code."""

import argparse
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

from fleet_smi import __version__
from fleet_smi.errors import DeliveryError, FleetError, UsageError

COMMANDS: dict[str, str] = {
    "status": "show all GPUs as a table (the default command)",
    "top": "watch the fleet live: nodes, GPUs, processes, people, history",
    "free": "find free GPUs, best first, ready for CUDA_VISIBLE_DEVICES",
    "run": "take free GPUs of this machine and run a command on them, in turn",
    "wait": "wait until GPUs are free, in the hub's queue; then run something or notify",
    "queue": "show who waits for GPUs, in which order and why; cancel a request (needs a hub)",
    "jobs": "list, follow or cancel your jobs that `run --detach` started here",
    "claim": "lease the GPUs on which a process of yours already runs",
    "leases": "list who has leased which GPU, and who uses one without a lease",
    "reserve": "book GPUs of a node for a time; list, change, cancel (needs a hub)",
    "release": "give back what `claim` or `free --hold` has leased",
    "login": "log in at a hub, for commands that act in your name",
    "logout": "revoke and forget the token of `login`",
    "who": "show who uses GPUs: how many, since when, how many of them idle",
    "history": "show a timeline of each GPU (needs a hub)",
    "report": "GPU-hours, load, idle time, energy and cost over a period (needs a hub)",
    "nodes": "list the nodes and when each was last seen; rename, label, remove",
    "render": "write the fleet as a static page for any web server",
    "like": "imitate gpustat, nvgpu or cluster-smi, over this fleet",
    "up": "run a hub, this machine and the web page in one process",
    "hub": "run the hub; manage its tokens and users",
    "agent": "report this machine to a hub, a shared folder or a pipe",
    "join": "install the agent on machines over ssh, and let them join the hub",
    "ssh": "trust the host keys of nodes that are read over ssh",
    "doctor": "check this machine and suggest fixes",
    "capture": "write what this machine's drivers and tools say, scrubbed, for a bug report",
    "migrate": "import the settings of gpustat-web, nvgpu, cluster-smi and others",
    "config": "show or check the settings, or write a settings file",
    "service": "install the agent or the hub as a systemd service",
    "demo": "run a simulated fleet with a real hub, to try it without a GPU",
    "simulate": "load-test a hub with a simulated fleet",
    "mcp": "answer an assistant's questions about GPUs (Model Context Protocol)",
    "completion": "print a completion script for your shell",
}
"""Every command and its line in the help; the module of that name implements it."""
COMMAND_EXTRAS: dict[str, str] = {
    "demo": "hub",
    "hub": "hub",
    "mcp": "mcp",
    "simulate": "hub",
    "top": "top",
    "up": "hub",
}
"""The extra that a command needs; the others work without any."""

_TIME_FLAGS = ("--at", "--since", "--until")

EXIT_CODES = """\
exit codes:
  0    success
  1    cannot be met now: not enough free GPUs, or doctor found a failure
  2    usage error: unknown flag, name or id, bad pattern, bad setting
  3    no answer, or access denied: the hub, the --dir folder, or every node
  70   internal error: a bug in fleet-smi
  130  interrupted
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: argparse imports `shutil` to find the terminal's, which is slow."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=96)


class CommandParser(argparse.ArgumentParser):
    """An argument parser with `--config` at every level, whose errors are `UsageError`s."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **options})
        # No default: a subparser's default would overwrite the value given to its parent.
        self.add_argument(
            "--config",
            metavar="FILE",
            type=os.path.abspath,
            default=argparse.SUPPRESS,
            help="read only this settings file",
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; accept a relative time like `-2h` after a time flag.

        argparse would read `--at -2h` as two flags, so it is passed on as `--at=-2h`.
        """
        tokens = list(sys.argv[1:] if args is None else args)
        # Backwards, because joining two tokens moves those after them.
        for at in range(len(tokens) - 1, 0, -1):
            flag, value = tokens[at - 1 : at + 1]
            if flag in _TIME_FLAGS and value[:1] == "-" and value[1:2].isdecimal():
                tokens[at - 1 : at + 1] = [f"{flag}={value}"]
        return super().parse_known_args(tokens, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise a one-line `UsageError` instead of printing the usage and exiting."""
        _, is_missing, names = message.partition("arguments are required: ")
        if is_missing:
            message = f"missing {self._with_choices(names.split(', '))}"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def _with_choices(self, names: list[str]) -> str:
        """Return the names of missing arguments, each with what can be given for it."""
        choices = {
            action.metavar or action.dest: ", ".join(map(str, action.choices))
            for action in self._actions
            if action.choices
        }
        described = [f"{name}: {choices[name]}" if name in choices else name for name in names]
        return "; ".join(described)


def build_parser(name: str) -> CommandParser:
    """Build the parser of one command from its module."""
    # Only the module of the requested command is imported: start-up time counts.
    command = import_module(f"fleet_smi.cli.commands.{name}")
    parser = CommandParser(
        prog="fleet-smi" if name == "status" else f"fleet-smi {name}",
        description=command.HELP,
        epilog=_epilog(name, command),
        allow_abbrev=False,
    )
    if name == "status":
        parser.add_argument("--version", action="version", version=f"fleet-smi {__version__}")
    command.add_arguments(parser)
    _describe_actions(parser)
    # On the top parser alone, for the reason given at the argument.
    parser.set_defaults(config=None)
    return parser


def _describe_actions(parser: argparse.ArgumentParser) -> None:
    """Begin the help of each action with its line in the help of the command."""
    for action in parser._actions:
        for line in getattr(action, "_choices_actions", ()):
            subparser = action.choices[line.dest]  # type: ignore[index]
            subparser.description = subparser.description or line.help
            _describe_actions(subparser)


def parse_command_line(parser: CommandParser, argv: list[str]) -> argparse.Namespace:
    """Parse the arguments; a file given with `--config` applies to the whole process."""
    args = parser.parse_args(argv)
    if file := getattr(args, "config", None):
        os.environ["FLEET_SMI_CONFIG"] = file
    if _prints_data(args):
        # JSON, CSV and HTML are for programs: UTF-8, whatever the locale of the terminal is.
        stdout: Any = sys.stdout
        stdout.reconfigure(encoding="utf-8", errors="replace")
    return args


def _prints_data(args: argparse.Namespace) -> bool:
    flags = any(getattr(args, flag, None) for flag in ("json", "csv", "html"))
    return flags or getattr(args, "format", None) in ("json", "csv", "html")


def _epilog(name: str, command: Any) -> str:
    parts = [f"examples:\n{command.EXAMPLES}"]
    if name == "status":
        rows = (f"  {command_name:<12}{line}" for command_name, line in COMMANDS.items())
        parts.insert(0, "commands (each has --help):\n" + "\n".join(rows) + "\n")
    return "\n".join([*parts, EXIT_CODES])


def main(argv: list[str]) -> int:
    """Run one command and return its exit code; print errors as one line on stderr."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # What is left in the buffer would fail again at the final flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0  # the reader of the pipe has closed it, as `head` does
        return _fail(f"cannot continue: {error.strerror or error}", 1)
    except Exception as error:  # a bug is reported in one line, not as a traceback
        if os.environ.get("FLEET_SMI_DEBUG"):
            raise
        return _fail(
            f"internal error, a bug in fleet-smi: {error!r}; set FLEET_SMI_DEBUG=1 for a traceback",
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
        _require_known_command(name, argv)
        args = parse_command_line(build_parser(name), argv[1:] if argv[:1] == [name] else argv)
        if name in COMMAND_EXTRAS:
            from fleet_smi.extras import require_extra

            require_extra(COMMAND_EXTRAS[name], f"`fleet-smi {name}`")
        code: int = import_module(f"fleet_smi.cli.commands.{name}").run(args)
    except FleetError as error:
        return _fail(str(error), _exit_code(error))
    except ModuleNotFoundError as error:
        return _fail_without_extra(name, error)
    return code


def _fail_without_extra(name: str, error: ModuleNotFoundError) -> int:
    """Name the extra that a flag or setting needs; raise the error if no extra has the module."""
    from fleet_smi.extras import find_extra, missing_extra

    extra = find_extra(error.name)
    if extra is None:
        raise error
    return _fail(str(missing_extra(extra, f"this use of `fleet-smi {name}`")), 2)


def _require_known_command(name: str, argv: list[str]) -> None:
    if name == "status" and argv and not argv[0].startswith("-") and argv[0] != "status":
        from difflib import get_close_matches

        close = get_close_matches(argv[0], COMMANDS, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"commands: {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command `{argv[0]}`; {hint}")


def _exit_code(error: FleetError) -> int:
    if isinstance(error, DeliveryError):
        return 3
    return 2 if isinstance(error, UsageError) else 1


def _fail(message: str, code: int) -> int:
    """Print the message as one line on stderr and return the exit code."""
    # Texts of drivers and hubs may have newlines; scripts and logs expect one line.
    print(f"fleet-smi: {' '.join(message.split())}", file=sys.stderr)
    return code
