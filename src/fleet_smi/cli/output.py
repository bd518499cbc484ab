"""Terminal output of commands: width, colour, and periodic refresh."""

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
_MAX_DIGITS = 5  # of COLUMNS: a longer number is not the width of a terminal
_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR, _HIDE_CURSOR, _SHOW_CURSOR = "\x1b[2J", "\x1b[?25l", "\x1b[?25h"


def add_colour_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--color` and `--no-color`."""
    parser.add_argument("--color", action="store_true", help="use colour even in a pipe")
    parser.add_argument("--no-color", action="store_true", help="no colour (also: NO_COLOR=1)")


def use_colour(args: argparse.Namespace) -> bool:
    """Whether to use colour: on a terminal, unless a flag or NO_COLOR decides otherwise."""
    if args.no_color or (os.environ.get("NO_COLOR") and not args.color):
        return False
    return args.color or _is_screen()


def _is_screen() -> bool:
    """Whether stdout is a terminal that understands escape codes."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def output_columns() -> int:
    """Return the width to fill: COLUMNS if set, else the terminal's, else a fixed one."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and len(setting) <= _MAX_DIGITS and int(setting) > 0:
        return int(setting)
    try:
        # Some terminals report a width of 0.
        return os.get_terminal_size(sys.stdout.fileno()).columns or PIPED_COLUMNS
    except OSError:
        return PIPED_COLUMNS


def history_banner(args: argparse.Namespace, view: "DatedView", paint: "Paint") -> str:
    """Return the "As of …" line above a screen with `--at`; without it, nothing."""
    if args.at is None:
        return ""
    from fleet_smi.terminal.view.history_banner import banner

    return banner(view, output_columns(), paint, now=time.time())


def repeat(interval_seconds: float, render: Callable[[], str], *, interactive: bool) -> None:
    """Print the rendered text every interval until interrupted.

    On a terminal an interactive screen is redrawn in place; elsewhere texts follow each other.
    """
    on_screen = interactive and _is_screen()
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP: leave it
            signal.signal(number, _exit_on_signal)
    due = time.monotonic()
    if on_screen:
        sys.stdout.write(_HIDE_CURSOR + _CLEAR)
    try:
        while True:
            text = render()
            sys.stdout.write(_redraw(text) if on_screen else text)
            sys.stdout.flush()
            # Due times are multiples of the interval from the start, so slow reads cause no drift.
            due += interval_seconds * max(1, -(-(time.monotonic() - due) // interval_seconds))
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        if on_screen:
            sys.stdout.write(_SHOW_CURSOR)
            sys.stdout.flush()


def _exit_on_signal(number: int, _: object) -> None:
    # An exception rather than os._exit, so that `finally` shows the cursor again.
    sys.exit(128 + number)


def _redraw(text: str) -> str:
    """Return the text with escapes that overwrite the screen line by line.

    Nothing is cleared before it is overwritten, so the screen does not flicker.
    """
    lines = text.splitlines()
    width, rows = os.get_terminal_size(sys.stdout.fileno())
    # One row stays free: a newline in the last row would scroll the screen.
    if len(lines) >= rows > 1:
        more = f"… {len(lines) - rows + 2} more lines: make the terminal taller"
        lines[rows - 2 :] = [more[: width or None]]
    return _HOME + "".join(f"{line}{_TO_LINE_END}\n" for line in lines) + _TO_SCREEN_END
