"""A terminal for tests: a program in tmux, with what its screen shows."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.machines import wait_until


class Tmux:
    """Runs a program in a terminal of a given size, and a shell after it."""

    def __init__(
        self, folder: Path, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int]
    ) -> None:
        # Short: the path of a socket has at most a hundred bytes.
        self._socket = str(folder / "tmux")
        columns, rows = size
        mode = "stty -a | grep -qw -- -icanon && echo mode=raw || echo mode=line"
        line = f"{shlex.join(command)}; echo code=$?; {mode}; exec cat"
        self._tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows)),
            f"sh -c {shlex.quote(line)}",
            env=env,
        )

    def _tmux(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", self._socket, *arguments],
            env=None if env is None else dict(env),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names of them."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for(self, text: str) -> str:
        """Wait until the screen has a text, and return the screen."""
        wait_until(lambda: text in self.screen)
        return self.screen

    def close(self) -> None:
        """End the terminal and what runs in it."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False
        )
