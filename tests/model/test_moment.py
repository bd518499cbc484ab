"""Points in time as people write them, with clocks that are set forward and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.model.moment import (
    parse_length,
    parse_moment,
    parse_since,
    parse_upcoming,
    to_remote_moment,
)

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from(
    [BERLIN, UTC, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu"), ZoneInfo("Asia/Beirut")]
)
TIMES = st.integers(1_000_000_000, 2_000_000_000)
UNITS = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1}
# A Monday, half past ten in Berlin.
NOW = datetime(2026, 11, 16, 10, 30, 15, tzinfo=BERLIN).timestamp()


def berlin(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    "said, meant",
    [
        ("yesterday 03:12", "2026-11-15T03:12"),
        ("today 9:00", "2026-11-16T09:00"),
        ("Today", "2026-11-16T00:00"),
        ("yesterday", "2026-11-15T00:00"),
        ("2026-11-15T03:12", "2026-11-15T03:12"),
        ("2026-11-15 03:12:30", "2026-11-15T03:12:30"),
        ("2026-11-15", "2026-11-15T00:00"),
        ("10:30", "2026-11-16T10:30"),
        ("10:31", "2026-11-15T10:31"),
        ("14:00", "2026-11-15T14:00"),
        ("Mon 09:00", "2026-11-16T09:00"),
        ("monday 11:00", "2026-11-09T11:00"),
        ("TUE 09:00", "2026-11-10T09:00"),
        ("sun", "2026-11-15T00:00"),
        (" now ", "2026-11-16T10:30:15"),
        ("-2h", "2026-11-16T08:30:15"),
        ("-1d12h", "2026-11-14T22:30:15"),
        ("-90min", "2026-11-16T09:00:15"),
    ],
)
def test_a_point_in_time_is_parsed(said: str, meant: str) -> None:
    assert parse_moment(said, NOW, BERLIN) == berlin(meant)


def test_every_time_that_a_program_prints_can_be_given() -> None:
    at = 1763000000.0970974  # such as `time.time()`, or a time in a response: 17 digits
    assert parse_moment(repr(at), at + 1) == at


@pytest.mark.parametrize("said", ["@1763000000", "1763000000", "1763000000.250"])
def test_seconds_since_1970_are_accepted(said: str) -> None:
    assert parse_moment(said, NOW, BERLIN) == float(said.removeprefix("@"))


@pytest.mark.parametrize("said", ["today 10:31", "2026-11-17", "2027-01-01T00:00", "@1999999999"])
def test_a_time_in_the_future_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="is in the future"):
        parse_moment(said, NOW, BERLIN)


@pytest.mark.parametrize(
    "said",
    ["", "soon", "T", "t 10:00", "25:00", "10:60", "2026-02-30", "2026-13-01 10:00", "m 10:00",
     "t", "mo 10:00", "tomorrow 10:00", "2h", "--2h", "-2", "-2y", "0000-01-01", "10:00:00:00",
     "٠٣:١٢", "yesterday 03:12\x1b[31m", "x" * 5000],
)  # fmt: skip
def test_invalid_text_is_refused_in_one_line_with_examples(said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_moment(said, NOW, BERLIN)
    assert "is not a point in time: write it like" in str(refused.value)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 200


def test_a_time_before_1970_is_refused() -> None:
    for said in ("-99999d", "1969-12-30 10:00", "1800-01-01"):
        with pytest.raises(UsageError, match="is before 1970"):
            parse_moment(said, NOW, BERLIN)


def test_a_time_that_occurred_twice_is_the_latest_past_one() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN).timestamp()
    later = first + 3600
    assert parse_moment("2026-10-25 02:30", NOW, BERLIN) == later
    assert parse_moment("02:30", later + 60, BERLIN) == later
    assert parse_moment("02:30", later - 60, BERLIN) == first


def test_a_time_that_the_clocks_skipped_is_refused_or_that_of_the_day_before() -> None:
    noon = berlin("2026-03-29T12:00")
    with pytest.raises(UsageError, match="set forward over it"):
        parse_moment("today 02:30", noon, BERLIN)
    assert parse_moment("02:30", noon, BERLIN) == berlin("2026-03-28T02:30")
    assert parse_moment("sun 02:30", noon, BERLIN) == berlin("2026-03-22T02:30")


def test_a_day_without_a_midnight_begins_with_its_first_second() -> None:
    beirut = ZoneInfo("Asia/Beirut")  # puts its clocks forward at midnight
    at = parse_moment("2026-03-29", NOW, beirut)
    assert datetime.fromtimestamp(at, beirut).isoformat() == "2026-03-29T01:00:00+03:00"


@given(TIMES, TIMES, ZONES)
def test_a_formatted_date_and_time_is_parsed_back(at: int, later: int, zone: ZoneInfo) -> None:
    now = float(at + later)
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"):
        written = datetime.fromtimestamp(at, zone).strftime(form)
        read = parse_moment(written, now, zone)
        assert datetime.fromtimestamp(read, zone).strftime(form) == written
        assert read in (at, at + 3600)  # where the clocks had it twice


@given(TIMES, st.times(), ZONES)
def test_a_time_without_a_day_is_its_latest_occurrence(
    now: int, clock: object, zone: ZoneInfo
) -> None:
    said = f"{clock:%H:%M:%S}"
    at = parse_moment(said, now, zone)
    assert at <= now
    assert f"{datetime.fromtimestamp(at, zone):%H:%M:%S}" == said
    steps = range(int(at) + 60, now + 1, 60)
    assert all(f"{datetime.fromtimestamp(step, zone):%H:%M:%S}" != said for step in steps)


@given(TIMES, st.datetimes(datetime(2001, 9, 10), datetime(2033, 1, 1)), ZONES)  # noqa: DTZ001
def test_a_day_of_the_week_is_one_of_the_last_seven(
    now: int, day: datetime, zone: ZoneInfo
) -> None:
    name = f"{day:%a}"
    at = parse_moment(name, now, zone)
    days = datetime.fromtimestamp(now, zone).date() - datetime.fromtimestamp(at, zone).date()
    assert timedelta(0) <= days < timedelta(7)
    assert f"{datetime.fromtimestamp(at, zone):%a}" == name


LENGTH = st.lists(
    st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4
)


@given(LENGTH, ZONES)
def test_a_relative_time_is_the_same_in_every_zone(
    parts: list[tuple[int, str]], zone: ZoneInfo
) -> None:
    seconds = sum(count * UNITS[unit] for count, unit in parts)
    said = "".join(f"{count}{unit}" for count, unit in parts)
    assert parse_moment(f"-{said}", NOW, zone) == NOW - seconds
    assert parse_since(said, NOW, zone) == parse_since(f"-{said}", NOW, zone) == NOW - seconds


@given(st.text(max_size=30), ZONES)
def test_any_text_is_a_past_time_or_refused(text: str, zone: ZoneInfo) -> None:
    for parse in (parse_moment, parse_since):
        try:
            at = parse(text, NOW, zone)
        except UsageError:
            continue
        assert 0 <= at <= NOW


@given(
    st.sampled_from(["24h", "-2h", "now", "yesterday 03:12", "14:00", "Mon 09:00", "@1763000000"]),
    ZONES,
    ZONES,
)
def test_a_time_for_another_machine_is_the_same_in_its_zone(
    said: str, ours: ZoneInfo, theirs: ZoneInfo
) -> None:
    assert parse_moment(to_remote_moment(said, NOW, ours), NOW, theirs) == parse_since(
        said, NOW, ours
    )


def test_a_relative_time_stays_relative_for_another_machine() -> None:
    assert parse_moment(to_remote_moment("24h", NOW, BERLIN), NOW - 500, UTC) == NOW - 86900


def test_a_refused_time_is_shown_as_it_was_written() -> None:
    with pytest.raises(UsageError, match="'2026-11-17T03:12' is in the future"):
        to_remote_moment("2026-11-17T03:12", NOW, BERLIN)


def test_the_default_zone_is_that_of_this_machine() -> None:
    written = datetime.fromtimestamp(NOW - 86400).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert parse_moment(written, NOW) == NOW - 86400


@given(TIMES)
def test_a_future_time_is_never_returned(now: int) -> None:
    assume(now % 60)
    tomorrow = datetime.fromtimestamp(now, UTC) + timedelta(days=1)
    with pytest.raises(UsageError, match="in the future"):
        parse_moment(f"{tomorrow:%Y-%m-%d %H:%M}", now, UTC)


@pytest.mark.parametrize(
    "said, meant",
    [
        ("fri 18:00", "2026-11-20T18:00"),
        ("Monday 18:00", "2026-11-16T18:00"),
        ("mon 09:00", "2026-11-23T09:00"),
        ("18:00", "2026-11-16T18:00"),
        ("09:00", "2026-11-17T09:00"),
        ("tomorrow", "2026-11-17T00:00"),
        ("tomorrow 9:00", "2026-11-17T09:00"),
        ("2026-12-01T06:00", "2026-12-01T06:00"),
        ("+2h", "2026-11-16T12:30:15"),
        ("+1d12h", "2026-11-17T22:30:15"),
        ("now", "2026-11-16T10:30:15"),
        ("sat", "2026-11-21T00:00"),
    ],
)
def test_a_time_to_come_is_parsed(said: str, meant: str) -> None:
    assert parse_upcoming(said, NOW, BERLIN) == berlin(meant)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("today 09:00", "in the past"),
        ("2026-11-15", "in the past"),
        ("1763000000", "in the past"),
        ("yesterday 18:00", "not a point in time to come"),
        ("soon", "not a point in time to come"),
        ("25:00", "not a point in time to come"),
        ("", "not a point in time to come"),
    ],
)
def test_what_is_no_time_to_come_is_refused(said: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_upcoming(said, NOW, BERLIN)


def test_a_time_to_come_on_a_day_whose_clocks_are_set() -> None:
    before = berlin("2026-10-24T12:00")
    first = parse_upcoming("sun 02:30", before, BERLIN)
    assert first == berlin("2026-10-25T02:30")  # the first of the two, in summer time
    assert parse_upcoming("sun 06:00", before, BERLIN) - before == 19 * 3600
    with pytest.raises(UsageError, match="set forward"):
        parse_upcoming("2027-03-28 02:30", before, BERLIN)


@pytest.mark.parametrize(("said", "seconds"), [("12h", 43200), ("1d12h", 129600), ("90min", 5400)])
def test_a_length_of_time_is_parsed(said: str, seconds: int) -> None:
    assert parse_length(said) == seconds
    with pytest.raises(UsageError, match="length of time"):
        parse_length("long")


def test_a_number_a_little_ahead_of_this_clock_is_now() -> None:
    now = 1_750_000_000.0004
    assert parse_moment(f"{now + 0.0004:.3f}", now) == now
    assert parse_moment(str(now + 4.0), now) == now
    with pytest.raises(UsageError, match="is in the future"):
        parse_moment(str(now + 60.0), now)
