"""The judgement as tests ask for it: after one look, or after so long of the same."""

from typing import Any

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.thresholds import Thresholds
from fleet_smi.model.verdict import judge
from fleet_smi.model.window import Seen, observe
from tests.builders import NOON

SETTINGS = Thresholds()
STEP = 60.0


def watch(card: Gpu, seconds: float, seen: Seen | None = None, *, until: float = NOON) -> Seen:
    """What a minutely watcher has seen of a GPU that was like this for so long."""
    at = until - seconds
    while at <= until:
        seen = observe(seen, card, at, SETTINGS)
        at += STEP
    assert seen is not None
    return seen


def look(card: Gpu, **known: Any) -> Verdict:
    """The verdict of one sample."""
    return judge(card, observe(None, card, NOON, SETTINGS), NOON, SETTINGS, **known)


def after(seconds: float, card: Gpu, seen: Seen | None = None) -> Verdict:
    """The verdict on a GPU that has been like this for so long."""
    return judge(card, watch(card, seconds, seen), NOON, SETTINGS)


def said(verdict: Verdict) -> tuple[str, str]:
    return verdict.state, verdict.reason
