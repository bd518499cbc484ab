"""Full-screen refresh on a terminal: redraws in place, scrolls, and ends with `q`."""

import contextlib
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR, _HIDE_CURSOR, _SHOW_CURSOR = "\x1b[2J", "\x1b[?25l", "\x1b[?25h"
_KEY = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.DOTALL)
_QUIT = (b"q", b"Q")
_ONE_LINE = {b"j": 1, b"\r": 1, b"\n": 1, b"\x1b[B": 1, b"\x1bOB": 1}
_ONE_LINE |= {b"k": -1, b"\x1b[A": -1, b"\x1bOA": -1}
_ONE_PAGE = {b" ": 1, b"f": 1, b"\x1b[6~": 1, b"b": -1, b"\x1b[5~": -1}
_TO_START = (b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~")
_TO_END = (b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~")
# A window that is dragged sends a signal for every row: one new picture is enough.
_RESIZE_SECONDS = 0.2
_MAX_KEY_BYTES = 1024


class LiveScreen:
    """A screen of text lines; keys work where the standard input is this terminal.

    Use it as a context manager: the terminal is restored at the end, and while suspended (Ctrl-Z).
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._first = 0
        self._keyboard: int | None = None
        self._saved_mode: list[Any] | None = None
        self._is_resized = self._is_writing = self._is_suspend_due = False
        # Each signal writes to it, also one that comes just before the wait for a key begins:
        # its handler runs only after that wait.
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._old_wakeup = -1
        self._old_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Self":
        self._take_terminal()
        self._old_wakeup = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._handle(signal.SIGWINCH, self._on_resize)
        self._handle(signal.SIGTSTP, self._on_suspend)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._release_terminal()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def show(self, text: str) -> None:
        """Replace the text; the position in it stays."""
        self._lines = text.splitlines()
        self._draw()

    def wait(self, due: float) -> bool:
        """Handle keys until `due`, by the monotonic clock; return whether to continue."""
        while (timeout := due - time.monotonic()) > 0:
            watched = [self._wake_read, *([] if self._keyboard is None else [self._keyboard])]
            ready, _, _ = select.select(watched, [], [], timeout)
            if self._keyboard in ready and not self._handle_keys():
                return False
            if self._wake_read in ready:
                os.read(self._wake_read, _MAX_KEY_BYTES)
            if self._is_resized:
                # The text is made for the width of the window: draw a new one soon.
                self._is_resized = False
                due = min(due, time.monotonic() + _RESIZE_SECONDS)
        return True

    def _handle_keys(self) -> bool:
        """Handle the keys that were pressed; return whether to continue."""
        try:
            data = os.read(self._keyboard, _MAX_KEY_BYTES) if self._keyboard is not None else b""
        except OSError:
            data = b""
        if not data:  # the terminal was closed
            self._keyboard = None
            return True
        for key in _KEY.findall(data):
            if key in _QUIT:
                return False
            self._scroll(key)
        self._draw()
        return True

    def _scroll(self, key: bytes) -> None:
        if key in _TO_START:
            self._first = 0
        elif key in _TO_END:
            self._first = len(self._lines)
        else:
            # One line of the last page stays, so that nobody loses their place.
            page = max(1, self._rows() - 2)
            self._first += _ONE_LINE.get(key, 0) + page * _ONE_PAGE.get(key, 0)
        self._first = self._clamp(self._first)

    def _clamp(self, first: int) -> int:
        return max(0, min(first, len(self._lines) - (self._rows() - 1)))

    def _draw(self) -> None:
        """Overwrite the screen line by line: nothing is cleared before, so nothing flickers."""
        rows = self._rows()
        self._first = self._clamp(self._first)
        shown = self._lines[self._first : self._first + rows - 1]
        text = "".join([f"{line}{_TO_LINE_END}\n" for line in shown])
        # The last row stays free, or has the position: a newline in it would scroll the screen.
        hint = self._hint(len(shown)) if len(self._lines) >= rows else ""
        self._write(f"{_HOME}{text}{_TO_SCREEN_END}{hint}")

    def _hint(self, count: int) -> str:
        last = self._first + count
        keys = "" if self._keyboard is None else "  arrows, PgUp, PgDn: scroll  q: quit"
        text = f"lines {self._first + 1}-{last} of {len(self._lines)}{keys}"
        return text[: max(0, self._size().columns - 1)]

    def _rows(self) -> int:
        # Some terminals report a height of 0; one row is the least that can be shown.
        return max(2, self._size().lines or len(self._lines) + 1)

    def _size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(sys.stdout.fileno())
        except OSError:  # the terminal was closed
            return os.terminal_size((0, 0))

    def _take_terminal(self) -> None:
        self._write(_HIDE_CURSOR + _CLEAR)
        keyboard = _own_keyboard()
        if keyboard is None:
            return
        self._keyboard, self._saved_mode = keyboard, termios.tcgetattr(keyboard)
        # Keys arrive one by one and unseen; Ctrl-C and Ctrl-Z still send their signals.
        tty.setcbreak(keyboard, termios.TCSANOW)

    def _release_terminal(self) -> None:
        if self._keyboard is not None and self._saved_mode is not None:
            with contextlib.suppress(termios.error):  # a terminal that is gone needs no mode
                termios.tcsetattr(self._keyboard, termios.TCSANOW, self._saved_mode)
        self._keyboard = None
        # Below the position, which is in the last row and would be overwritten by the prompt.
        newline = "\n" if len(self._lines) >= self._rows() else ""
        self._write(newline + _SHOW_CURSOR)

    def _write(self, text: str) -> None:
        """Write to the terminal; a Ctrl-Z meanwhile takes effect afterwards.

        Its handler writes, too, and a stream cannot be written to from within its own writing.
        """
        self._is_writing = True
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        finally:
            self._is_writing = False
        if self._is_suspend_due:
            self._suspend()

    def _handle(self, number: signal.Signals, handler: Callable[[int, Any], None]) -> None:
        if signal.getsignal(number) is signal.SIG_DFL:
            self._old_handlers[number] = signal.signal(number, handler)

    def _on_resize(self, *_: object) -> None:
        self._is_resized = True

    def _on_suspend(self, *_: object) -> None:
        if self._is_writing:
            self._is_suspend_due = True
        else:
            self._suspend()

    def _suspend(self) -> None:
        self._is_suspend_due = False
        self._release_terminal()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # stops here until `fg`
        signal.signal(signal.SIGTSTP, self._on_suspend)
        self._take_terminal()
        self._draw()


def _own_keyboard() -> int | None:
    """The standard input, if it is a terminal and this program is in its foreground.

    A background job that changes the mode of its terminal would be stopped.
    """
    try:
        descriptor = sys.stdin.fileno()
        is_foreground = os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # no terminal, closed, or no stdin at all
        return None
    return descriptor if is_foreground else None
