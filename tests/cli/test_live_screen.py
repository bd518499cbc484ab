"""The live screen: a signal that arrives while it is drawn."""

import io
import os
import signal
import sys

import pytest

from fleet_smi.cli.live_screen import LiveScreen


def test_ctrl_z_while_the_screen_is_drawn_takes_effect_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, events = LiveScreen(), list[str]()

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if not events:
                screen._on_suspend()
            events.append("draw" if "first line" in text else "release or take")
            return len(text)

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(os, "kill", lambda *_: events.append("stop"))
    try:
        screen.show("first line")
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    assert events == ["draw", "release or take", "stop", "release or take", "draw"]
