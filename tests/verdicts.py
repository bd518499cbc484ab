"""Verdicts of one sample, or of equal samples over a while."""

from typing import Any

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import MIB
from fleet_smi.model.verdict.judge import judge
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import Window, add_sample
from tests.builders import NOON, process

SETTINGS = Thresholds()
STEP = 60.0
DISPLAY = process(900, "gdm", kind="graphics", name="Xorg", gpu_memory_bytes=300 * MIB)
MPS_SERVER = process(800, "root", name="nvidia-cuda-mps-server", gpu_memory_bytes=30 * MIB)
HIDDEN = process(77, None, hidden=True, name=None, started_at=None)


def observe_for(
    card: Gpu, seconds: float, window: Window | None = None, *, until: float = NOON
) -> Window:
    """Return the window of a GPU that was like this for `seconds`, sampled every minute."""
    at = until - seconds
    while at <= until:
        window = add_sample(window, card, at, SETTINGS)
        at += STEP
    assert window is not None
    return window


def judge_once(card: Gpu, **known: Any) -> Verdict:
    """Return the verdict on one sample."""
    return judge(card, add_sample(None, card, NOON, SETTINGS), NOON, SETTINGS, **known)


def judge_after(seconds: float, card: Gpu, window: Window | None = None) -> Verdict:
    """Return the verdict on a GPU that has been like this for `seconds`."""
    return judge(card, observe_for(card, seconds, window), NOON, SETTINGS)


def state_and_reason(verdict: Verdict) -> tuple[str, str]:
    return verdict.state, verdict.reason


def note_texts(verdict: Verdict) -> list[str]:
    return [note.words for note in verdict.notes]
