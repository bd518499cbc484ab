"""A notice on the desktop of this user, through `notify-send`."""

import subprocess

_TIMEOUT_SECONDS = 5.0


def show_notice(title: str, text: str) -> bool:
    """Show a notice; return whether that was possible."""
    # "--": a text that begins with a dash is no option.
    command = ["notify-send", "--", title, text]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
