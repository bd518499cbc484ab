"""What comes late fills the gap that it belongs to, and touches nothing else."""

from itertools import pairwise

from tests.builders import HOUR, NOON, gpu
from tests.hub.history.kept import times
from tests.hub.history.stories import close
from tests.hub.history.telling import FIRST, Story, working


def test_reports_that_were_kept_back_for_an_hour_land_where_they_belong() -> None:
    story = Story()
    story.go_on(0, 5, working(1))
    story.silence(HOUR)
    story.go_on(5, 60, working(1))  # in order, as an agent sends what it kept
    story.go_on(60, 70, gpu())
    story.silence(2 * HOUR)
    (occupancy,) = story.kept.occupancies()
    assert (times([occupancy]), occupancy.sums.gpu_seconds) == ([(0, 60)], close(60.0))
    assert times(story.kept.presence()) == [(0, 70)]
    assert len(story.kept.series()) == 7


def test_what_comes_late_fills_the_gap_and_harms_nothing() -> None:
    story = Story()
    story.go_on(0, 20, working(1))
    story.sequence += 1000
    story.go_on(1000, 1020, working(1))
    before = {row.start: row for row in story.kept.series()}
    for offset in range(500):
        story.tell(100 + offset, working(2, user="bob"), number=21 + offset)
    story.silence(1019)
    story.silence(1021.5)
    story.go_on(1022, 1025, gpu())
    story.silence(1100)
    kept = story.kept
    assert times(kept.periods(FIRST))[:3] == [(0, 20), (100, 600), (1000, 1022)]
    assert kept.seconds(user="bob") == close(500.0)
    assert kept.seconds(user="alice") == close(42.0)
    assert all(row in kept.series() for row in before.values())
    assert {row.start - NOON for row in kept.series()} >= set(range(100, 600, 10))
    assert times(kept.presence()) == [(0, 20), (100, 600), (1000, 1025)]


def test_a_long_gap_is_filled_without_a_seam() -> None:
    story = Story()
    story.go_on(0, 5, working(1))
    story.sequence += 20_000
    story.go_on(12_000, 12_005, working(1))
    for second in range(10, 11_500):
        story.tell(second, working(1, busy_percent=0.0), number=second)
    story.silence(12_005)
    story.silence(12_008)
    held = [one for one in story.kept.periods(FIRST) if one.state == "held"]
    assert (times(held)[0][0], times(held)[-1][1]) == (612, 11_500)
    assert all(one.end == after.start for one, after in pairwise(held))
    assert story.watched.history.counts()["history_reports_too_late_total"] == 0


def test_late_reports_of_who_is_still_there_are_part_of_the_same_occupancy() -> None:
    story = Story()
    story.go_on(0, 20, working(1))
    story.sequence += 1000
    story.go_on(200, 220, working(1))
    for offset in range(100):
        story.tell(50 + offset, working(1), number=21 + offset)
    story.silence(219)
    story.silence(222)
    story.silence(300)
    (occupancy,) = story.kept.occupancies()
    assert occupancy.sums.gpu_seconds == close(20.0 + 100.0 + 20.0)


def test_late_sums_are_added_to_the_hours_around_the_gap() -> None:
    noon = NOON // HOUR * HOUR + HOUR - 30 - NOON
    story = Story()
    story.go_on(noon, noon + 10, working(1))
    story.sequence += 1000
    story.go_on(noon + 60, noon + 80, working(1))
    for offset in range(40):
        story.tell(noon + 12 + offset, working(1), number=11 + offset)
    story.silence(noon + 79)
    story.silence(noon + 81)
    story.silence(noon + 200)
    by_hour = sorted((row.hour, row.sums.gpu_seconds) for row in story.kept.usage())
    assert [seconds for _, seconds in by_hour] == close([10.0 + 18.0, 22.0 + 20.0])


def test_what_is_too_late_for_any_gap_is_only_counted() -> None:
    story = Story()
    story.go_on(10, 20, working(1))
    story.tell(5, working(2), number=0, run_id="another")
    assert story.watched.history.counts()["history_reports_too_late_total"] == 1
