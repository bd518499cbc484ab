"""Where a command's output goes: how wide it is, whether it takes colour, how it repeats."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view.history_banner import DatedView

PIPED_COLUMNS = 120
_MOST_DIGITS = 5  # of a width
_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR, _HIDE_CURSOR, _SHOW_CURSOR = "\x1b[2J", "\x1b[?25l", "\x1b[?25h"


def add_colour_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags by which colour is chosen."""
    parser.add_argument("--color", action="store_true", help="colour even when piped")
    parser.add_argument("--no-color", action="store_true", help="no colour (also: NO_COLOR=1)")


def use_colour(args: argparse.Namespace) -> bool:
    """Colour on a terminal, unless somebody said otherwise."""
    if args.no_color or (os.environ.get("NO_COLOR") and not args.color):
        return False
    return args.color or _is_screen()


def _is_screen() -> bool:
    """Whether escape codes are understood where the output goes."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def output_columns() -> int:
    """The width to fill: COLUMNS where set, the terminal's, and a steady one when piped."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and len(named) <= _MOST_DIGITS and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or PIPED_COLUMNS
    except OSError:
        return PIPED_COLUMNS


def history_banner(args: argparse.Namespace, view: "DatedView", paint: "Paint") -> str:
    """What stands above a screen of the past: of when it is. Above one of now, nothing."""
    if args.at is None:
        return ""
    from fleet_smi.terminal.view.history_banner import banner

    return banner(view, output_columns(), paint, now=time.time())


def repeat(interval_seconds: float, render: Callable[[], str], *, interactive: bool) -> None:
    """Show the text again and again until interrupted: in turn, or in place for eyes."""
    on_screen = interactive and _is_screen()
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _end)
    due = time.monotonic()
    if on_screen:
        sys.stdout.write(_HIDE_CURSOR + _CLEAR)
    try:
        while True:
            shown = render()
            sys.stdout.write(_in_place(shown) if on_screen else shown)
            sys.stdout.flush()
            # Due times are counted from the start: a slow look does not make the next one drift.
            due += interval_seconds * max(1, -(-(time.monotonic() - due) // interval_seconds))
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        if on_screen:
            sys.stdout.write(_SHOW_CURSOR)
            sys.stdout.flush()


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)  # not at once, so that the cursor comes back


def _in_place(text: str) -> str:
    """Over the old text line by line: nothing is cleared before it is written, so no flicker."""
    lines = text.splitlines()
    width, rows = os.get_terminal_size(sys.stdout.fileno())
    if len(lines) >= rows > 1:
        more = f"… {len(lines) - rows + 2} more lines: enlarge the terminal"
        lines[rows - 2 :] = [more[: width or None]]
    return _HOME + "".join(f"{line}{_TO_LINE_END}\n" for line in lines) + _TO_SCREEN_END
