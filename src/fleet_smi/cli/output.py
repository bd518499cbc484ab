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


def add_colour_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--color` and `--no-color`."""
    parser.add_argument("--color", action="store_true", help="use colour even in a pipe")
    parser.add_argument("--no-color", action="store_true", help="no colour (also: NO_COLOR=1)")


def use_colour(args: argparse.Namespace) -> bool:
    """Whether to use colour: on a terminal, unless a flag or NO_COLOR decides otherwise."""
    if args.no_color or (os.environ.get("NO_COLOR") and not args.color):
        return False
    return args.color or is_screen()


def is_screen() -> bool:
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

    On a terminal an interactive screen is redrawn in place, scrolls and ends with `q`; elsewhere
    texts follow each other.
    """
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP: leave it
            signal.signal(number, _exit_on_signal)
    if interactive and is_screen():
        from fleet_smi.cli.live_screen import LiveScreen

        with LiveScreen() as screen:
            _repeat(interval_seconds, lambda: screen.show(render()), screen.wait)
    else:
        _repeat(interval_seconds, lambda: _print(render()), _sleep)


def _repeat(
    interval_seconds: float, show: Callable[[], None], wait: Callable[[float], bool]
) -> None:
    """Show, then wait until the next one is due, for as long as `wait` returns true."""
    due = time.monotonic()
    is_running = True
    while is_running:
        show()
        # Due times are multiples of the interval from the start, so slow reads cause no drift.
        due += interval_seconds * max(1, -(-(time.monotonic() - due) // interval_seconds))
        is_running = wait(due)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _sleep(due: float) -> bool:
    time.sleep(max(0.0, due - time.monotonic()))
    return True


class PartialScreen:
    """A screen on a terminal that is drawn again, with more in it, until the last one replaces it.

    Unlike `repeat`, it leaves what is above it alone.
    """

    def __init__(self) -> None:
        self._drawn_lines = 0

    def draw(self, text: str, last_line: str) -> None:
        """Replace what was drawn before by a text and a last line."""
        _, rows = os.get_terminal_size(sys.stdout.fileno())
        # Only as many lines as fit: the cursor cannot go back to what has scrolled away.
        room = rows - 2 if rows > 2 else None  # some terminals report no height
        lines = [*text.splitlines()[:room], last_line]
        sys.stdout.write(self._erased() + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._drawn_lines = len(lines)

    def finish(self, text: str) -> None:
        """Replace what was drawn before by the whole text."""
        sys.stdout.write(self._erased() + text)

    def _erased(self) -> str:
        return f"\x1b[{self._drawn_lines}A\x1b[J" if self._drawn_lines else ""


def _exit_on_signal(number: int, _: object) -> None:
    # An exception rather than os._exit, so that the terminal is restored.
    sys.exit(128 + number)
