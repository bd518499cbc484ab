"""The tables of cluster-smi, compared with real ones, bugs included."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given

from fleet_smi.compat.cluster_smi.codec import decode_cluster, to_snapshot
from fleet_smi.compat.cluster_smi.table import TableOptions, render, render_status
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Fault
from fleet_smi.model.units import MIB
from fleet_smi.model.view_options import ViewOptions
from fleet_smi.terminal.paint import display_width
from tests.builders import NOON, gpu, process, snapshot
from tests.compat.seed_samples import seed_sample
from tests.terminal.fleet_strategies import FLEET

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CLEAR = "\x1b[2J"


def utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def seen(*snapshots_and_times: object, now: float = NOON) -> FleetView:
    fleet = FleetState()
    for one in snapshots_and_times:
        fleet.apply(one, now)  # type: ignore[arg-type]
    return fleet.view(now)


def sampled_fleet(drawn: str) -> FleetView:
    """The nodes of the sample at the moment at which that screen was drawn."""
    first = drawn.removeprefix(CLEAR).partition(" (")[0]
    now = datetime.strptime(first, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    fleet = FleetState()
    for output in decode_cluster(seed_sample("cluster-smi/router-to-client.mixed.bin")):
        taken = to_snapshot(output, NOON, interval_seconds=60.0)
        if taken.name != "no-time":  # in the sample it has no time and no device: Offline there
            fleet.apply(taken, taken.taken_at)
    return fleet.view(now)


def without_runtimes_and_times(text: str) -> list[str]:
    """The lines but for what had changed between the sample's message and its screens."""
    changing = re.compile(r"\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4}|[ \d]\d sec")
    stored = [line for line in text.splitlines() if "no-time" not in line]
    return [changing.sub(lambda found: "#" * len(found[0]), line) for line in stored]


def expected(drawn: str) -> list[str]:
    """What it drew, but for a node without a time, and with a row for one without a GPU."""
    lines = without_runtimes_and_times(drawn.removeprefix(CLEAR).rstrip("\n"))
    separator = lines[1]
    return [line for at, line in enumerate(lines) if (line, lines[at - 1]) != (separator,) * 2]


def ours(view: FleetView, wanted: TableOptions) -> list[str]:
    lines = without_runtimes_and_times(render(view, wanted, utc))
    return [
        line
        for at, line in enumerate(lines)
        if "py-node-03" not in line and "py-node-03" not in lines[at - 1]
    ]


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("client-output", TableOptions(colour=True)),
        ("client-output-d", TableOptions(colour=True, details=True)),
    ],
)
def test_the_table_matches_cluster_smi(name: str, wanted: TableOptions) -> None:
    drawn = seed_sample(f"cluster-smi/{name}.ansi.txt").decode()
    # It takes a fan that cannot be read for one that stands still.
    mended = drawn.replace("|   0 % |", "|   ? % |")
    assert ours(sampled_fleet(drawn), wanted) == expected(mended)


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("client-output-p", TableOptions(colour=True, processes=True)),
        ("client-output-p-t", TableOptions(colour=True, processes=True, last_seen=True)),
        ("client-output-color_false-p", TableOptions(processes=True)),
    ],
)
def test_with_processes_the_load_column_is_centred(name: str, wanted: TableOptions) -> None:
    drawn = seed_sample(f"cluster-smi/{name}.ansi.txt").decode()
    # It forgets to centre the cells of rows below the last process.
    mended = drawn.replace("|   0 %    |", "|    0 %   |")
    assert ours(sampled_fleet(drawn), wanted) == expected(mended)


def test_a_pattern_and_a_user_choose_as_in_cluster_smi() -> None:
    drawn = seed_sample("cluster-smi/client-output-npy-node.ansi.txt").decode()
    view = sampled_fleet(drawn)
    by_name = ViewOptions(node=re.compile("py-node")).apply(view)
    assert ours(by_name, TableOptions(colour=True)) == expected(drawn)
    drawn = seed_sample("cluster-smi/client-output-ualice-p.ansi.txt").decode()
    by_user = ViewOptions(user="alice").apply(sampled_fleet(drawn))
    assert ours(by_user, TableOptions(colour=True, processes=True)) == expected(drawn)


def test_nul_bytes_in_command_lines_do_not_break_the_columns() -> None:
    drawn = seed_sample("cluster-smi/client-output-p-e-t-d.ansi.txt").decode()
    wanted = TableOptions(processes=True, full_commands=True, last_seen=True, details=True)
    lines = render(sampled_fleet(drawn), wanted, utc).splitlines()[1:]
    assert len({len(line) for line in lines}) == 1
    assert "| python -c import time;time.sleep(3600) a-rather-long-co |" in "\n".join(lines)
    output = [re.split(r" *\| *", line)[2:9] for line in drawn.splitlines() if "python" in line]
    shown = [re.split(r" *\| *", line)[2:9] for line in lines if "python" in line]
    assert [row[:3] for row in shown] == [row[:3] for row in output]


def test_the_table_of_2018_matches_that_version() -> None:
    drawn = seed_sample("cluster-smi/seed-version-client-output.txt").decode()
    view = sampled_fleet(seed_sample("cluster-smi/client-output.ansi.txt").decode())
    live = ViewOptions(node=re.compile("gpu01|py-node-01")).apply(view)
    assert render_status(live, colour=False) == drawn.rstrip("\n") + "\n"


def test_what_is_not_known_is_a_question_mark_and_divides_nothing() -> None:
    unknown = gpu(
        memory_used_bytes=None,
        memory_total_bytes=None,
        busy_percent=None,
        temperature_celsius=None,
        power_watts=None,
        processes=None,
    )
    view = seen(snapshot(unknown))
    row = render(view, TableOptions(details=True, processes=True), utc).splitlines()[4]
    assert "| ? MiB / ? MiB (  ? %) |    ? %   |   ? % |   ? C |   ?W  |     | ?    |" in row
    assert "?MiB / ?MiB" in render_status(view, colour=False)
    empty = seen(snapshot(gpu(memory_total_bytes=0, memory_used_bytes=0)))
    assert "(  ? %)" in render(empty, TableOptions(), utc)


def test_nodes_are_sorted_as_in_cluster_smi() -> None:
    view = seen(*(snapshot(gpu(), node=name, node_id=name) for name in ("gpu2", "gpu10", "GPU3")))
    text = render(view, TableOptions(), utc)
    assert re.findall(r"^\| (\w+\d+)", text, re.MULTILINE) == ["GPU3", "gpu10", "gpu2"]


def test_a_node_without_devices_has_a_row() -> None:
    view = seen(snapshot(node="bare"), snapshot(gpu(), node="full"))
    assert "| bare | no GPU " in render(view, TableOptions(details=True, processes=True), utc)
    assert "| bare | no GPU " in render_status(view, colour=False)


def test_a_silent_node_is_offline_with_the_time_of_its_last_report() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON)
    row = render(fleet.view(NOON + 600), TableOptions(last_seen=True), utc).splitlines()[4]
    assert row.startswith("| gpu01 | Offline ")
    assert row.endswith("| Sun Jun 15 15:06:40 2025 |")


def test_a_card_that_is_lost_is_neither_green_nor_like_the_others() -> None:
    lost = gpu(1, fault=Fault(kind="lost", detail="fell off the bus"), processes=None)
    text = render(seen(snapshot(gpu(), lost)), TableOptions(colour=True), utc)
    assert "\x1b[0;32m0:NVIDIA H100 80GB HBM3\x1b[0m" in text
    assert "| 1:NVIDIA H100 80GB HBM3 (lost) |" in text


def test_only_ones_own_rows_are_yellow_and_without_colour_nothing_is() -> None:
    view = seen(snapshot(gpu(processes=(process(1, "alice"), process(2, "bob")))))
    coloured = TableOptions(processes=True, colour=True, highlighted_user="alice")
    text = render(view, coloured, utc)
    assert "\x1b[0;33malice\x1b[0m" in text
    assert "\x1b[0;33mbob" not in text
    plain = TableOptions(processes=True, highlighted_user="alice")
    assert "\x1b" not in render(view, plain, utc)
    assert COLOURS.sub("", text) == render(view, plain, utc)


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (0, "                   0 sec"),
        (61, "              1 min  1 sec"[-24:]),
        (165499, "  1 d 21 h 58 min 19 sec"),
        (None, "?"),
    ],
)
def test_a_runtime_is_aligned_by_unit(seconds: int | None, shown: str) -> None:
    started = None if seconds is None else NOON - seconds
    running = process(started_at=started, gpu_memory_bytes=512 * MIB)
    view = seen(snapshot(gpu(processes=(running,))))
    row = render(view, TableOptions(processes=True), utc).splitlines()[4]
    assert row.endswith(f" {shown} |")
    assert "|   512 MiB |" in row or "| 512 MiB |" in row


@given(FLEET)
def test_any_fleet_is_rendered_aligned_and_without_escape_codes(view: FleetView) -> None:
    wanted = TableOptions(processes=True, full_commands=True, details=True)
    for text in (render(view, wanted, lambda _: utc(NOON)), render_status(view, colour=False)):
        assert text.replace("\n", "").isprintable()
    assert (
        len({display_width(line) for line in render_status(view, colour=False).splitlines()}) == 1
    )
