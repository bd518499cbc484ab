"""The usage report of a range, and its texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.history import Job, Ribbon, RibbonPoint, Sums, Usage, Usages
from fleet_smi.model.mig import instance_weights
from fleet_smi.model.usage_report import (
    Price,
    add_sums,
    build_usage_report,
    busy_percent,
    hours_of_day,
    kilowatt_hours,
    share_percent,
)
from fleet_smi.model.usage_report_text import (
    describe_usage,
    format_cost,
    format_count,
    format_coverage,
    format_energy,
    format_hours,
)
from tests import builders
from tests.terminal import samples
from tests.terminal.history_samples import USER_SUMS, lab_week, sums
from tests.terminal.samples import HOUR, NOW, fleet, node, utc, verdict

NOTHING = Usages(start=NOW, end=NOW + HOUR, by="gpu", rows=(), total=Sums(), by_state={})


def moment(at: float, busy: float, *, nodes: int = 2, reporting: int = 2) -> RibbonPoint:
    return RibbonPoint(
        at=at, nodes=nodes, nodes_reporting=reporting, gpus={"busy": busy, "free": 8 - busy}
    )


def ribbon(*moments: RibbonPoint) -> Ribbon:
    return Ribbon(start=NOW, end=NOW + 4 * HOUR, moments=moments)


def view(*nodes: NodeView) -> FleetView:
    return replace(fleet(*nodes), taken_at=NOW + HOUR)


def gpu(index: int, uuid: str) -> JudgedGpu:
    return replace(samples.gpu(index, verdict("free")), uuid=uuid)


def test_hours_of_the_day_are_the_mean_of_all_days() -> None:
    hours = hours_of_day([moment(NOW, 2), moment(NOW + 24 * HOUR, 6), moment(NOW + HOUR, 1)], utc)
    assert [(each.hour, each.in_use, each.gpus) for each in hours] == [(14, 4, 8), (15, 1, 8)]


def test_an_hour_without_reports_is_left_out() -> None:
    assert hours_of_day([moment(NOW, 0, reporting=0)], utc) == ()


def test_coverage_is_the_share_of_gpu_time_with_reports() -> None:
    three = view(node("gpu01", gpu(0, "a"), gpu(1, "b")), node("gpu02", gpu(0, "c"), silent=True))
    seen = replace(NOTHING, by_state={"free": 1.5 * HOUR, "busy": 0.75 * HOUR})
    assert build_usage_report(seen, NOTHING, three, ribbon(), (), to_local_time=utc).heard == 0.75
    assert (
        build_usage_report(NOTHING, NOTHING, view(), ribbon(), (), to_local_time=utc).heard is None
    )


def test_an_unused_gpu_is_the_least_used() -> None:
    nodes = view(
        node("gpu10", gpu(3, "d")),
        node("gpu2", gpu(0, "a"), gpu(1, "b")),
        node("gpu1", gpu(0, "c")),
    )
    had = replace(NOTHING, rows=(Usage(name="b", sums=sums(3, 0.5)),))
    report = build_usage_report(NOTHING, had, nodes, ribbon(), (), to_local_time=utc)
    names = [(each.name, each.sums.gpu_seconds / HOUR) for each in report.least_used]
    assert names == [("gpu1:0", 0), ("gpu2:0", 0), ("gpu10:3", 0), ("gpu2:1", 3)]


def test_a_gpu_without_a_measured_load_counts_as_working() -> None:
    unreport = Usage(name="a", sums=Sums(gpu_seconds=2 * HOUR))
    lazy = Usage(name="b", sums=sums(3, 0.1))
    gpus = replace(NOTHING, rows=(unreport, lazy))
    both = view(node("n", gpu(0, "a"), gpu(1, "b")))
    report = build_usage_report(NOTHING, gpus, both, ribbon(), (), to_local_time=utc)
    assert [each.name for each in report.least_used] == ["n:1", "n:0"]


def test_a_gpu_of_a_silent_node_is_not_called_unused() -> None:
    silent = view(node("n", gpu(0, "a"), silent=True))
    assert (
        build_usage_report(NOTHING, NOTHING, silent, ribbon(), (), to_local_time=utc).least_used
        == ()
    )


def test_a_gpu_with_instances_is_listed_by_instance() -> None:
    report = build_usage_report(
        NOTHING, NOTHING, view(samples.sliced()), ribbon(), (), to_local_time=utc
    )
    names = [each.name for each in report.least_used]
    assert names == ["mig01:0 1g.5gb", "mig01:0 1g.5gb+me", "mig01:0 3g.20gb", "mig01:1"]


def test_instances_are_compared_by_their_own_hours() -> None:
    mig = samples.sliced().gpus[0]
    weights = instance_weights(mig)
    hours = [20.0, 1.0, 30.0]
    rows = [
        Usage(name=part.uuid, sums=sums(own * weight, 0.5))
        for part, weight, own in zip(mig.instances, weights, hours, strict=True)
    ]
    whole = Usage(name="whole", sums=sums(10, 0.5))
    had = replace(NOTHING, rows=(*rows, whole))
    nodes = view(replace(samples.sliced(), gpus=(mig,)), node("n", gpu(0, "whole")))
    report = build_usage_report(NOTHING, had, nodes, ribbon(), (), to_local_time=utc)
    found = [round(row.sums.gpu_seconds / HOUR, 6) for row in report.least_used]
    assert found == [1.0, 10.0, 20.0, 30.0]
    assert report.least_used[1].name == "n:0"


@pytest.mark.parametrize("profile", ["²g.10gb", "٣g.40gb", "99g.1gb", "g.", "", None])
def test_whatever_a_node_calls_a_profile_its_instances_have_a_weight(profile: str | None) -> None:
    parts = builders.instance(0, profile=profile), builders.instance(1, profile="1g.10gb")
    weights = instance_weights(builders.gpu(0, instances=parts))
    assert all(0 < weight <= 1 for weight in weights)
    assert sum(weights) <= 1


def test_too_many_jobs_are_left_out() -> None:
    assert (
        build_usage_report(NOTHING, NOTHING, view(), ribbon(), None, to_local_time=utc).waste
        is None
    )


def test_jobs_idle_for_an_hour_or_more_are_listed_longest_first() -> None:
    assert [job.user for job in lab_week().waste or ()] == [
        "hana",
        "山田太郎",
        "dmitri.ivanov",
    ]


def test_without_a_price_there_is_no_cost() -> None:
    kilowatt_hour = Sums(energy_joules=3.6e6)
    assert lab_week().cost(kilowatt_hour) is None
    assert format_cost(lab_week(), kilowatt_hour) == ""
    priced = lab_week(Price(per_kwh=0.31, currency="EUR"))
    assert priced.cost(kilowatt_hour) == pytest.approx(0.31)
    assert format_cost(priced, Sums(energy_joules=3.6e9)) == "310.00 EUR"
    assert format_cost(lab_week(Price(per_kwh=2.0)), kilowatt_hour) == "2.00"


def test_a_share_of_nothing_is_unknown() -> None:
    assert busy_percent(Sums(gpu_seconds=10)) is None
    assert share_percent(1, 0) is None
    assert busy_percent(Sums(gpu_seconds=10, measured_seconds=5, busy_seconds=1)) == 20


FIGURE = st.floats(0, 1e12)
SUMS = st.builds(Sums, *[], **dict.fromkeys(Sums.__struct_fields__, FIGURE))


@given(st.lists(SUMS, max_size=5))
def test_a_total_is_the_sum_of_each_figure(every: list[Sums]) -> None:
    found = add_sums(every)
    for field in Sums.__struct_fields__:
        assert getattr(found, field) == pytest.approx(sum(getattr(each, field) for each in every))


def test_the_shares_of_users_add_up() -> None:
    report = lab_week()
    shares = [
        share_percent(each.gpu_seconds, report.usages.total.gpu_seconds)
        for each in USER_SUMS.values()
    ]
    assert sum(share for share in shares if share is not None) == pytest.approx(100)


@pytest.mark.parametrize(
    "seconds, text",
    [(0, "0"), (360, "0.1"), (9.9 * HOUR, "9.9"), (9.97 * HOUR, "10"), (2425 * HOUR, "2,425")],
)
def test_few_hours_are_formatted_with_a_decimal(seconds: float, text: str) -> None:
    assert format_hours(seconds) == text


@pytest.mark.parametrize("share, text", [(1.0, "all"), (0.99999, "99.9 %"), (0.5, "50.0 %")])
def test_not_quite_all_of_the_time_is_not_called_all(share: float, text: str) -> None:
    assert format_coverage(replace(lab_week(), heard=share)) == text
    assert format_coverage(replace(lab_week(), heard=None)) == ""


def test_figures_are_formatted_as_text() -> None:
    assert format_energy(Sums(energy_joules=3.6e9)) == "1,000.0 kWh"
    assert kilowatt_hours(Sums(energy_joules=3.6e6)) == 1
    assert [format_count(count, "user") for count in (0, 1, 2)] == [
        "0 people",
        "1 person",
        "2 people",
    ]
    assert describe_usage(Sums()) == "not used"
    assert describe_usage(sums(12, 0.25)) == "12 h in use, 3.0 h worked"
    assert describe_usage(Sums(gpu_seconds=HOUR)) == "1.0 h in use, load unknown"


def test_a_running_job_is_listed_as_waste_too() -> None:
    job = Job(id="1", user="a", command=None, start=NOW, end=None, gpus=1, sums=sums(9, 0, 9))
    report = build_usage_report(NOTHING, NOTHING, view(), ribbon(), [job], to_local_time=utc)
    assert report.waste == (job,)
