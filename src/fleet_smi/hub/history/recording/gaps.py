"""Gaps in the record of one node: remembered for a while, to be filled by late reports. Pure."""

from collections.abc import Iterable

from fleet_smi.hub.history.recording.ledger_state import TimeGap
from fleet_smi.hub.history.recording.usage import HOUR_SECONDS

_MAX_AGE_SECONDS = 48.0 * HOUR_SECONDS
_MAX_GAPS = 8
_MIN_GAP_SECONDS = 1.0


def recent_gaps(gaps: Iterable[TimeGap], now: float) -> list[TimeGap]:
    """Return the gaps that are not too old: an hour at the edge of one stays in memory with it."""
    return [gap for gap in gaps if gap[1] > now - _MAX_AGE_SECONDS]


def with_gap(gaps: Iterable[TimeGap], gap: TimeGap) -> list[TimeGap]:
    """Return the recent gaps with a new one, which is the latest."""
    return [*recent_gaps(gaps, gap[1]), gap][-_MAX_GAPS:]


def without_span(gaps: Iterable[TimeGap], gap: TimeGap, span: TimeGap) -> list[TimeGap]:
    """Return the gaps with what is left of one of them, before and after a span of it."""
    before_and_after = [(gap[0], span[0]), (span[1], gap[1])]
    remaining = [rest for rest in before_and_after if rest[1] - rest[0] > _MIN_GAP_SECONDS]
    return sorted([*remaining, *[other for other in gaps if other != gap]])[-_MAX_GAPS:]
