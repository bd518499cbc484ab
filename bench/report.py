"""Tables and ratios of measurements, checked against budgets. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

BudgetOutcome = Literal["kept", "missed", "not judged", ""]
_QUIET = 0.1
_UNITS = {"ms": (1e3, 2), "µs": (1e6, 1), "MiB": (1 / (1 << 20), 1), "kB": (1e-3, 1)}


@dataclass(frozen=True, kw_only=True)
class MeasurementSeries:
    """Measurements of one subject, one value per round; without values it has a note."""

    label: str
    values: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    note: str = ""

    @property
    def minimum(self) -> float:
        return min(self.values)

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two series to compare; the budget is the maximum ratio."""

    ours: str
    theirs: str
    budget: float | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetResult:
    """The result of a comparison; ratios are `None` where one side could not be measured."""

    pair: Pair
    median_ratio: float | None
    minimum_ratio: float | None
    outcome: BudgetOutcome


def check_budget(pair: Pair, measured: Mapping[str, MeasurementSeries]) -> BudgetResult:
    """Compare two series; the ratio of minimums decides.

    What disturbs a program only ever makes it slower, so the fastest round of each is what the
    programs themselves take; medians also tell how busy the machine was.
    """
    ours, theirs = measured.get(pair.ours), measured.get(pair.theirs)
    if ours is None or theirs is None or not ours.values or not theirs.values:
        # Failing to measure fleet-smi is a miss; a missing peer is not.
        failed = pair.budget is not None and ours is not None and not ours.values
        outcome: BudgetOutcome = "missed" if failed else "not judged" if pair.budget else ""
        return BudgetResult(pair=pair, median_ratio=None, minimum_ratio=None, outcome=outcome)
    of_minimums = ours.minimum / theirs.minimum
    return BudgetResult(
        pair=pair,
        median_ratio=ours.median / theirs.median,
        minimum_ratio=of_minimums,
        outcome="" if pair.budget is None else "kept" if of_minimums <= pair.budget else "missed",
    )


def series_table(series: Iterable[MeasurementSeries], unit: str) -> str:
    """Return one line per series: minimum, median, and CPU time where known."""
    series, (scale, digits) = tuple(series), _UNITS[unit]
    with_cpu = any(one.cpu for one in series)
    rows = [["", f"min {unit}", f"median {unit}", *([f"min CPU {unit}"] if with_cpu else [])]]
    for one in series:
        if not one.values:
            rows.append([one.label, one.note])
            continue
        numbers = [one.minimum, one.median, *([min(one.cpu)] if one.cpu else [])]
        rows.append([one.label, *(f"{number * scale:.{digits}f}" for number in numbers)])
    return format_table(rows)


def ratio_table(judgements: Iterable[BudgetResult]) -> str:
    """Return one line per comparison: both ratios, the budget and the outcome."""
    rows = [["", "of minimums", "of medians", "budget", ""]]
    for judged in judgements:
        budget = "" if judged.pair.budget is None else f"≤ {judged.pair.budget:.2f}"
        rows.append(
            [
                f"{judged.pair.ours} / {judged.pair.theirs}",
                _ratio(judged.minimum_ratio),
                _ratio(judged.median_ratio),
                budget,
                judged.outcome.upper() if judged.outcome == "missed" else judged.outcome,
            ]
        )
    return format_table(rows)


def background_load_text(share: float) -> str:
    """Describe in one line how busy the machine was otherwise."""
    said = f"others used {share:.0%} of this machine meanwhile"
    return said if share < _QUIET else f"{said}: measure again when it is quiet"


def budget_summary(judgements: Iterable[BudgetResult]) -> str:
    """Count kept and missed budgets in one line."""
    outcomes = [judged.outcome for judged in judgements if judged.outcome]
    kinds: tuple[Literal["kept", "missed", "not judged"], ...] = ("kept", "missed", "not judged")
    return "budgets: " + ", ".join(f"{outcomes.count(kind)} {kind}" for kind in kinds)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format columns two spaces apart, the first left-aligned, the others right-aligned.

    A row of two cells under a wider heading is a name and a remark that takes the rest.
    """
    whole = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[column]) for row in whole) for column in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        if len(row) == len(rows[0]):
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        else:
            cells += row[1:]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _ratio(ratio: float | None) -> str:
    return "—" if ratio is None else f"{ratio:.2f}"
