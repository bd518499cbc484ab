"""`fleet-smi top`: the live terminal."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from fleet_smi.terminal.top.app import SendSignalTo
    from fleet_smi.terminal.top.feed import Feed
    from fleet_smi.terminal.top.requests import SendSignal
    from fleet_smi.terminal.top.state import ScreenState, TopData

HELP = "watch GPUs, processes and people live; keys for sorting, filtering, history and signals"
EXAMPLES = """\
  fleet-smi top                  this machine, or the hub that is set
  fleet-smi top --hub http://gpuhub:7070
  fleet-smi top --ssh gpu01,gpu02    other machines, with nothing installed there
  fleet-smi top --filter 'free model:A100'
  fleet-smi top --at -2h         two hours ago; left and right move in time
  fleet-smi top --theme mono --ascii    no colours, only ASCII characters
"""
_THEMES = ("dark", "light", "terminal", "mono")
_SORTS = ("name", "attention", "free", "load", "memory", "power", "temperature")
_MIN_SECONDS, _MAX_SECONDS, _SSH_SECONDS = 0.5, 3600.0, 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--filter", metavar="TEXT", default="", help="only matching GPUs, like 'free mem>40G'")
    add("--sort", choices=_SORTS, default="name", help="order of the nodes (name)")
    add(
        "-i",
        "--interval",
        type=float,
        metavar="SECONDS",
        help="read and draw every N seconds (1; over ssh 2); more for a slow line",
    )
    add("--theme", choices=_THEMES, help="colours (dark; mono with NO_COLOR)")
    add("--ascii", action="store_true", help="only ASCII characters")
    fleet_source.add_at_argument(parser)
    fleet_source.add_fleet_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the live terminal until it is quit."""
    _check(args)
    feed = _feed(args)
    state = _state(args, is_local=_is_local(feed))
    from fleet_smi.terminal.top.app import TopApp

    app = TopApp(
        feed,
        state,
        theme_name=args.theme or _default_theme(),
        is_ascii=args.ascii or not _has_unicode(),
        send_signal=_signal_sender(is_local=_is_local(feed)),
        draw_seconds=args.interval or 0.0,
    )
    for name in ("COLUMNS", "LINES"):
        # Textual would believe them, and not the terminal, whose window may have changed since.
        os.environ.pop(name, None)
    app.run()
    if app.chosen_theme is not None:
        _remember_theme(app.chosen_theme)
    if app.bug is not None:
        raise app.bug
    return app.return_code or 0


def _check(args: argparse.Namespace) -> None:
    interval = args.interval
    if interval is not None and not _MIN_SECONDS <= interval <= _MAX_SECONDS:
        raise UsageError(f"-i {interval:g}: must be {_MIN_SECONDS:g} to {_MAX_SECONDS:g} seconds")
    if not (sys.stdin.isatty() and output.is_screen()):
        raise UsageError("top needs a terminal: use `fleet-smi`, or `fleet-smi -i 2`")
    if args.filter:
        from fleet_smi.model.filter import parse_filter

        try:
            parse_filter(args.filter)
        except UsageError as error:
            raise UsageError(f"--filter: {error}") from None


def _feed(args: argparse.Namespace) -> "Feed":
    """Return the feed of the selected fleet."""
    from fleet_smi.terminal.top.feed import PolledFeed

    fleet = fleet_source.select_fleet(args, own_hub=True, patient=False, quiet=True)
    if isinstance(fleet, fleet_source.HubFleet):
        from fleet_smi.terminal.top.hub_feed import HubFeed

        return HubFeed(fleet.client)
    if fleet.is_local:
        return PolledFeed(fleet, "this machine", args.interval or 1.0)
    from fleet_smi.fleet.polled import PolledFleet

    interval = max(args.interval or _SSH_SECONDS, _SSH_SECONDS if args.ssh else _MIN_SECONDS)
    source = f"ssh {args.ssh}" if args.ssh else f"folder {args.dir}"
    background = fleet.polling() if args.ssh and isinstance(fleet, PolledFleet) else None
    return PolledFeed(fleet, source, interval, background)


def _is_local(feed: "Feed") -> bool:
    return feed.source == "this machine"


def _state(args: argparse.Namespace, *, is_local: bool) -> "ScreenState":
    from fleet_smi.terminal.top.state import ScreenState

    state = ScreenState(
        view="node" if is_local else "fleet", filter_text=args.filter, sort=args.sort
    )
    if args.at is not None:
        import time

        from fleet_smi.model.moment import parse_since

        state.view = "history"
        state.cursor = parse_since(args.at, time.time())
    return state


def _default_theme() -> str:
    if os.environ.get("NO_COLOR"):
        return "mono"
    if (remembered := _remembered_theme()) is not None:
        return remembered
    colours = os.environ.get("COLORTERM", "") + os.environ.get("TERM", "")
    rich = any(text in colours for text in ("truecolor", "24bit", "256", "direct", "kitty"))
    return "dark" if rich else "terminal"


def _theme_file() -> "Path":
    from pathlib import Path

    from fleet_smi.paths import login_file

    return Path(login_file(os.environ)).parent / "top-theme"


def _remembered_theme() -> str | None:
    """Return the theme that this user has chosen last."""
    try:
        theme = _theme_file().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return theme if theme in _THEMES else None


def _remember_theme(theme: str) -> None:
    file = _theme_file()
    try:
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        file.write_text(f"{theme}\n", "utf-8")
    except OSError:
        pass  # a home that cannot be written to: the next time begins with the default


def _has_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _signal_sender(*, is_local: bool) -> "SendSignalTo":
    def send(request: "SendSignal", data: "TopData") -> str:
        from fleet_smi import config
        from fleet_smi.terminal.top.signals import deliver_signal

        hub = config.load().hub
        return deliver_signal(
            request,
            data.node_view(request.node_id),
            is_local=is_local,
            ssh_config=hub.ssh_config,
            ssh_key=hub.ssh_key,
        )

    return send
