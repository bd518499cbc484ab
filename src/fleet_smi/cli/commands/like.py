"""`fleet-smi like NAME`: imitate another tool's flags and output, over this fleet."""

import argparse

from fleet_smi.cli import fleet_source
from fleet_smi.cli.formats import LIKE_COMMANDS, load_format
from fleet_smi.errors import UsageError

HELP = "imitate gpustat, nvgpu or cluster-smi: its flags and its output, over this fleet"
EXAMPLES = """\
  fleet-smi like gpustat -cup
  fleet-smi like nvgpu available -l 1
  fleet-smi like cluster-smi -p -t
  alias gpustat='fleet-smi like gpustat'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the tool's name and its own arguments."""
    parser.add_argument("tool", choices=sorted(LIKE_COMMANDS), help="the tool to imitate")
    # Everything after the name is the tool's: -p or --version mean something else there.
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own flags, or --help")


def run(args: argparse.Namespace) -> int:
    """Run that tool's command with its own flags."""
    from fleet_smi.cli.main import CommandParser, parse_command_line

    tool = load_format(LIKE_COMMANDS[args.tool])
    parser = CommandParser(
        prog=f"fleet-smi like {args.tool}",
        description=tool.HELP,
        epilog=f"examples:\n{tool.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tool.add_arguments(parser)
    fleet_source.add_fleet_arguments(parser, replay=True)
    try:
        code: int = tool.run(parse_command_line(parser, args.arguments))
    except UsageError as error:
        raise UsageError(f"{args.tool}: {error}") from None
    return code
