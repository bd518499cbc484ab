"""Notices to the person who waits: the bell of the terminal, the desktop, or a URL."""

import sys
from urllib.parse import urlsplit

from fleet_smi.cli.lease_keeper import say
from fleet_smi.errors import UsageError

_TIMEOUT_SECONDS = 10.0


def check(how: str) -> None:
    """Raise `UsageError` if there is no such kind of notification."""
    if how in ("bell", "desktop"):
        return
    parts = urlsplit(how)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--notify {how}: give bell, desktop, or a URL like https://ntfy.sh/topic")


def send(how: str, text: str) -> None:
    """Tell the person; where that fails, say so and go on."""
    if how == "bell":
        sys.stderr.write("\a")
        sys.stderr.flush()
    elif how == "desktop":
        from fleet_smi.node.bindings.desktop import show_notice

        if not show_notice("fleet-smi", text):
            say("no notice on the desktop: notify-send is missing, or there is no desktop")
    else:
        _post(how, text)


def _post(url: str, text: str) -> None:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "text/plain; charset=utf-8", "Title": "fleet-smi"}
    request = Request(url, text.encode(), headers, method="POST")  # noqa: S310  # see `check`
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
            pass
    except (URLError, OSError, ValueError) as error:
        say(f"no notice to {url}: {error}")
