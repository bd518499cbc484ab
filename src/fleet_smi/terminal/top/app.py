"""The Textual application of `fleet-smi top`: passes keys on, applies updates, draws the screen."""

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType

from fleet_smi.terminal.top.canvas import Canvas
from fleet_smi.terminal.top.controls import Controls
from fleet_smi.terminal.top.feed import Feed
from fleet_smi.terminal.top.requests import (
    ChangeTheme,
    GoTo,
    Quit,
    Request,
    SendSignal,
    ShowHistory,
    ShowPeople,
    ShowQueue,
    Watch,
)
from fleet_smi.terminal.top.screen import render
from fleet_smi.terminal.top.state import ScreenState, TopData, chosen_item
from fleet_smi.terminal.top.theme import THEMES
from fleet_smi.terminal.top.update_data import apply_update, show_moment
from fleet_smi.terminal.top.updates import ShowMessage, Update
from fleet_smi.terminal.view.history_strip import strip_columns

SendSignalTo = Callable[[SendSignal, TopData], str]
_TICK_SECONDS = 1.0
# How often it is looked for updates: those that come faster are drawn together.
_POLL_SECONDS = 0.25
_LIST_SECONDS = 5.0
_MESSAGE_SECONDS = 8.0
_BUG_CODE = 70


class TopApp(App[None]):
    """Shows a feed until `q`."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []
    CSS = "Screen { background: transparent; overflow: hidden; }"

    def __init__(
        self,
        feed: Feed,
        state: ScreenState,
        *,
        theme_name: str,
        is_ascii: bool,
        send_signal: SendSignalTo,
        draw_seconds: float = 0.0,
    ) -> None:
        """Create it; what arrives is drawn every `draw_seconds` at most, a key at once."""
        super().__init__(ansi_color=True)
        self.state = state
        self.data = TopData(feed.source, has_history=feed.has_history)
        self.data.arrangement.set_filter(state.filter_text)
        self.data.arrangement.set_sort(state.sort)
        self._feed = feed
        self._controls = Controls(state, self.data)
        self._theme_name = theme_name
        self._canvas = Canvas(theme_name, is_ascii=is_ascii)
        self._send_signal = send_signal
        self._draw_seconds = draw_seconds
        self._arrived: deque[Update] = deque()
        self._drawn_at = 0.0
        self._asked: dict[type, tuple[Request, float]] = {}
        self._message_until = 0.0
        self._is_matching = False
        self.chosen_theme: str | None = None
        """The theme that a key has chosen."""
        self.bug: Exception | None = None
        """What ended the program, where that was not its user."""

    def compose(self) -> ComposeResult:
        """Fill the screen with the canvas."""
        yield self._canvas

    def on_mount(self) -> None:
        """Start the feed and the clock."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # Not by an exception, so that the terminal is restored.
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.app_resume_signal.subscribe(self, self._draw_again)
        self.set_interval(_POLL_SECONDS, self._poll)
        # Appending to a deque is safe from any thread; the application looks at it by itself.
        self._feed.start(self._arrived.append)
        if self.state.cursor is not None:
            self._feed.request(GoTo(self.state.cursor))
        self._draw()

    def on_unmount(self) -> None:
        """Stop the feed."""
        self._feed.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.state.columns, self.state.rows = event.size.width, event.size.height
        self._draw()

    async def on_event(self, event: events.Event) -> None:
        """Take keys and the mouse before any widget."""
        if isinstance(event, events.Key) and event.key == "ctrl+z":
            self.action_suspend_process()
        elif isinstance(event, events.Key):
            self._do(self._controls.press(event.key, event.character))
        elif isinstance(event, events.Paste):
            self._do(self._controls.paste(event.text))
        elif isinstance(event, events.MouseDown):
            self._do(self._controls.click(event.x, event.y))
        elif isinstance(event, events.MouseScrollDown):
            self._do(self._controls.wheel(1, event.x, event.y))
        elif isinstance(event, events.MouseScrollUp):
            self._do(self._controls.wheel(-1, event.x, event.y))
        elif not isinstance(event, (events.MouseMove, events.MouseUp, events.Click)):
            await super().on_event(event)

    def _handle_exception(self, error: Exception) -> None:
        # Textual would print a traceback; the command prints one line.
        self.bug = self.bug or error
        self.exit(return_code=_BUG_CODE)

    def _poll(self) -> None:
        """Apply what has arrived; draw it, or at least the ages, which grow by themselves."""
        now = time.monotonic()
        wait = self._draw_seconds if self._arrived else max(self._draw_seconds, _TICK_SECONDS)
        if now - self._drawn_at < wait - _POLL_SECONDS / 2:
            return
        while self._arrived:
            update = self._arrived.popleft()
            if isinstance(update, ShowMessage):
                self._show_message(update.text)
            else:
                apply_update(self.data, self.state, update, now)
        if self.state.message and now > self._message_until:
            self.state.message = ""
        self._draw()

    def _do(self, requests: list[Request]) -> None:
        for request in requests:
            if isinstance(request, Quit):
                self.exit()
            elif isinstance(request, ChangeTheme):
                self._next_theme()
            elif isinstance(request, SendSignal):
                self._send(request)
            else:
                self._feed.request(request)
                show_moment(self.data, self.state)
        if self.state.message:
            self._message_until = time.monotonic() + _MESSAGE_SECONDS
        self._draw()
        self._match_on()

    def _match_on(self) -> None:
        """Match a filter further after the keys that were pressed meanwhile."""
        arrangement = self.data.arrangement
        if self._is_matching or not arrangement.is_pending:
            return

        def match() -> None:
            self._is_matching = False
            arrangement.update(self.data.fleet)
            if not arrangement.is_pending:
                self._draw()
            self._match_on()

        self._is_matching = True
        self.call_later(match)

    def _draw_again(self, _: App[None]) -> None:
        """Draw everything: after Ctrl-Z and `fg` nothing of it is on the terminal."""
        self._canvas.refresh()

    def _next_theme(self) -> None:
        self._theme_name = THEMES[(THEMES.index(self._theme_name) + 1) % len(THEMES)]
        self.chosen_theme = self._theme_name
        self._canvas.set_theme(self._theme_name)
        self._show_message(f"theme: {self._theme_name}")

    def _show_message(self, text: str) -> None:
        self.state.message = text
        self._message_until = time.monotonic() + _MESSAGE_SECONDS

    def _send(self, request: SendSignal) -> None:
        self._show_message("sending …")

        def send() -> None:
            self._arrived.append(ShowMessage(self._send_signal(request, self.data)))

        self.run_worker(send, thread=True, exit_on_error=False)

    def _draw(self) -> None:
        if not self.is_running:
            return
        self._drawn_at = time.monotonic()
        self._request_shown()
        screen = render(self.state, self.data, time.monotonic())
        self._controls.frame = screen.frame
        self._canvas.show(screen.lines)

    def _request_shown(self) -> None:
        """Request what the screen needs now, where it was not requested yet or is old."""
        state, item = self.state, chosen_item(self.state, self.data)
        if item is not None:
            self._ask_once(Watch(item.node_id, state.at), float("inf"))
        if state.view == "people":
            self._ask_once(ShowPeople(state.at), _LIST_SECONDS)
        elif state.view == "queue":
            self._ask_once(ShowQueue(), _LIST_SECONDS)
        elif state.view == "history" and item is not None:
            self._ask_history(item.node_id)

    def _ask_history(self, node_id: str) -> None:
        columns = strip_columns(self.state.columns)
        span, cursor = self.state.span_seconds, self.state.cursor
        slot = span / columns
        now = until = self.data.live_now(time.monotonic())
        if cursor is not None and cursor < now - span:
            # From the cursor's own day or week: whoever scrubs within it stays in that range.
            until = min(now, (int(cursor / span) + 1) * span)
        # To whole slots, so that strips do not shift with every second.
        until = int(until / slot) * slot
        since = until - span
        self._ask_once(ShowHistory(node_id, since, until, columns), float("inf"))

    def _ask_once(self, request: Request, seconds: float) -> None:
        asked = self._asked.get(type(request))
        now = time.monotonic()
        if asked is None or asked[0] != request or now - asked[1] >= seconds:
            self._asked[type(request)] = request, now
            self._feed.request(request)
