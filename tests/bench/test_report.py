"""The pure parts of the benchmark: ratios, budgets, tables."""

import pytest

from bench.imports import ImportedModule, parse_importtime
from bench.peers import last_error
from bench.report import (
    MeasurementSeries,
    Pair,
    background_load_text,
    budget_summary,
    check_budget,
    format_table,
    ratio_table,
    series_table,
)

PAIR = Pair(ours="ours", theirs="theirs", budget=0.5)


def measured(ours: tuple[float, ...], theirs: tuple[float, ...]) -> dict[str, MeasurementSeries]:
    return {
        "ours": MeasurementSeries(
            label="ours", values=ours, note="" if ours else "exit code 70: a bug"
        ),
        "theirs": MeasurementSeries(
            label="theirs", values=theirs, note="" if theirs else "not available: x"
        ),
    }


@pytest.mark.parametrize(
    ("ours", "outcome"), [(0.4, "kept"), (0.5, "kept"), (0.51, "missed"), (2.0, "missed")]
)
def test_a_budget_is_the_most_that_the_ratio_may_be(ours: float, outcome: str) -> None:
    assert check_budget(PAIR, measured((ours,), (1.0,))).outcome == outcome


def test_the_ratio_of_minimums_decides_however_slow_other_rounds_were() -> None:
    judged = check_budget(PAIR, measured((0.4, 3.0, 3.0), (1.0, 1.2, 1.4)))
    assert judged.minimum_ratio == pytest.approx(0.4)
    assert judged.median_ratio == pytest.approx(2.5)
    assert judged.outcome == "kept"


def test_a_pair_without_a_budget_is_only_information() -> None:
    judged = check_budget(Pair(ours="ours", theirs="theirs"), measured((9.0,), (1.0,)))
    assert (judged.minimum_ratio, judged.outcome) == (9.0, "")


def test_without_the_peer_a_budget_is_not_judged() -> None:
    judged = check_budget(PAIR, measured((0.1,), ()))
    assert (judged.minimum_ratio, judged.median_ratio) == (None, None)
    assert judged.outcome == "not judged"


def test_a_failure_of_fleet_smi_misses_its_budget() -> None:
    assert check_budget(PAIR, measured((), (1.0,))).outcome == "missed"


def test_the_last_line_counts_the_budgets() -> None:
    judged = [
        check_budget(PAIR, measured((0.4,), (1.0,))),
        check_budget(PAIR, measured((0.6,), (1.0,))),
        check_budget(PAIR, measured((0.6,), ())),
        check_budget(Pair(ours="ours", theirs="theirs"), measured((0.6,), (1.0,))),
    ]
    assert budget_summary(judged) == "budgets: 1 kept, 1 missed, 1 not judged"


def test_a_series_shows_its_minimum_and_median() -> None:
    shown = series_table(
        [
            MeasurementSeries(label="fleet-smi", values=(0.080, 0.1, 0.09), cpu=(0.07, 0.06, 0.08)),
            MeasurementSeries(label="nvgpu list", note="not available: no such release"),
        ],
        "ms",
    )
    assert shown == (
        "            min ms  median ms  min CPU ms\n"
        "fleet-smi    80.00      90.00       60.00\n"
        "nvgpu list  not available: no such release\n"
    )


def test_a_ratio_is_shown_with_its_budget() -> None:
    judged = [
        check_budget(PAIR, measured((0.6,), (1.0,))),
        check_budget(PAIR, measured((0.6,), ())),
        check_budget(Pair(ours="ours", theirs="theirs"), measured((0.6,), (1.0,))),
    ]
    assert ratio_table(judged) == (
        "               of minimums  of medians  budget\n"
        "ours / theirs         0.60        0.60  ≤ 0.50      MISSED\n"
        "ours / theirs            —           —  ≤ 0.50  not judged\n"
        "ours / theirs         0.60        0.60\n"
    )


def test_background_load_is_reported() -> None:
    assert background_load_text(0.04) == "others used 4% of this machine meanwhile"
    assert background_load_text(0.4).endswith("measure again when it is quiet")


def test_a_long_remark_does_not_widen_the_columns() -> None:
    assert format_table([["", "a", "b"], ["x", "1", "2"], ["y", "why it is not there"]]) == (
        "   a  b\nx  1  2\ny  why it is not there\n"
    )


def test_import_times_are_parsed_from_python_s_output() -> None:
    printed = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       178 |        178 |   _io\n"
        "a warning\n"
        "import time:       655 |       1104 | encodings\n"
    )
    assert parse_importtime(printed) == [
        ImportedModule(name="_io", own_microseconds=178, total_microseconds=178),
        ImportedModule(name="encodings", own_microseconds=655, total_microseconds=1104),
    ]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("ERROR: no release 9\nnote: try again\n", "no release 9"),
        ("Traceback\n  File x\nAttributeError: decode\n", "AttributeError: decode"),
        ("\n", "it did not say why"),
    ],
)
def test_a_failure_is_reported_in_one_line(printed: str, expected: str) -> None:
    assert last_error(printed) == expected
