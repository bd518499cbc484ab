"""The screen of `fleet-smi status`."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, NodeView, Note, State
from fleet_smi.model.snapshot import CollectorRun
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import status
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.samples import busy_gpu, fleet, gpu, hidden_process, node, process, utc, verdict

GOLDEN = Path(__file__).parent / "golden"
MACHINES: tuple[Callable[[], NodeView], ...] = (
    samples.eight,
    samples.mixed,
    samples.sliced,
    samples.unified,
    samples.crowd,
    samples.not_answering,
    samples.silent,
    samples.no_gpu,
)


def screen(
    view: FleetView, columns: int = 100, *, processes: bool = False, why: bool = False
) -> str:
    return status.render(
        view, columns, Paint(enabled=False), processes=processes, show_reasons=why, local=utc
    )


def row(text: str, index: int) -> str:
    return next(line for line in text.splitlines() if line.startswith(f" {index}  "))


@pytest.mark.parametrize("columns", [80, 100, 120, 160])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_one_machine_matches_the_golden_file(machine: Callable[[], NodeView], columns: int) -> None:
    text = screen(fleet(machine()), columns)
    assert_matches_golden(GOLDEN / f"status-{machine.__name__}-{columns}.txt", text)


@pytest.mark.parametrize("columns", [50, 80, 100, 120, 160])
def test_a_fleet_matches_the_golden_file(columns: int) -> None:
    assert_matches_golden(GOLDEN / f"status-fleet-{columns}.txt", screen(samples.lab(), columns))


def test_a_coloured_fleet_matches_the_golden_file() -> None:
    text = status.render(samples.lab(), 100, Paint(enabled=True), local=utc)
    assert_matches_golden(GOLDEN / "status-fleet-100-coloured.txt", text)


@pytest.mark.parametrize("columns", [80, 120])
def test_processes_and_reasons_match_the_golden_files(columns: int) -> None:
    view = fleet(samples.eight(), samples.crowd(), samples.sliced(), samples.mixed())
    text = screen(view, columns, processes=True, why=True)
    assert_matches_golden(GOLDEN / f"status-processes-why-{columns}.txt", text)


def test_colour_adds_nothing_but_colour() -> None:
    coloured = status.render(samples.lab(), 100, Paint(enabled=True), local=utc)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == screen(samples.lab())


def test_what_was_not_measured_is_a_dash_and_zero_is_zero() -> None:
    text = screen(
        fleet(
            node(
                "n",
                gpu(0, verdict("free"), 0.0, busy_percent=0.0, power_watts=0.0),
                gpu(1, verdict("free"), None, busy_percent=None, power_watts=None),
            )
        )
    )
    assert "0%" in row(text, 0) and "0 W" in row(text, 0) and "0.0/79.6" in row(text, 0)
    assert "%" not in row(text, 1) and " W" not in row(text, 1) and "—/79.6" in row(text, 1)


def test_the_model_is_in_the_heading_unless_there_are_several() -> None:
    assert "MODEL" not in screen(fleet(samples.eight()))
    assert "8 × NVIDIA H100 80GB HBM3" in screen(fleet(samples.eight())).splitlines()[0]
    mixed = screen(fleet(samples.mixed()))
    assert "3 GPUs" in mixed.splitlines()[0]
    assert "RTX 4090" in row(mixed, 0)


def test_a_narrow_terminal_shortens_names_then_the_bar_then_drops_power() -> None:
    def shown(columns: int) -> tuple[bool, bool, bool]:
        text = screen(fleet(samples.eight()), columns)
        return "nobody: 71.1" in text, "▓" in text, " 628 W" in text

    assert shown(100) == (True, True, True)
    assert shown(80) == (False, True, True)
    assert shown(66) == (False, False, True)
    assert shown(60) == (False, False, False)


@pytest.mark.parametrize("head", ["CLOCK", "PCIE", "FAN", "CONTAINER", "LIMIT"])
def test_a_wide_terminal_gets_more_columns(head: str) -> None:
    def heads(columns: int) -> list[str]:
        return screen(view, columns).splitlines()[1].split()

    view = fleet(
        node(
            "n",
            busy_gpu(0, process("alice", container="train-1"), fan_percent=40.0),
            gpu(1, verdict("free")),
        )
    )
    assert head in heads(140)
    assert head not in heads(100)


def test_a_column_that_no_gpu_can_fill_is_not_shown() -> None:
    assert "FAN" not in screen(fleet(samples.eight()), 200)


def test_free_mig_instances_are_counted_beside_free_gpus() -> None:
    free = gpu(0, verdict("free", "nobody on it"))
    view = fleet(node("gpu01", free), node("gpu02", free))
    counted = replace(view, summary=replace(view.summary, free_instances=3))
    assert status.render(counted, 100, Paint(enabled=False)).startswith("2 free + 3 MIG")


def test_hidden_processes_are_counted() -> None:
    text = screen(
        fleet(
            node(
                "n",
                busy_gpu(
                    0, process("alice"), hidden_process(7), hidden_process(8), hidden_process(9)
                ),
            )
        )
    )
    assert "alice · +3 processes you may not see" in row(text, 0)


def test_a_display_server_does_not_count_as_sharing() -> None:
    xorg = process("root", 0.3, kind="graphics", pid=2)
    text = screen(fleet(node("n", busy_gpu(0, process("alice"), xorg))))
    assert row(text, 0).endswith("  alice")


def test_users_who_share_a_gpu_are_named_largest_first() -> None:
    shared = busy_gpu(0, process("bob", 1.0, pid=1), process("alice", 9.0, pid=2))
    assert "alice, bob (shared by 2)" in row(screen(fleet(node("n", shared))), 0)


def test_the_notes_of_the_verdict_are_shown() -> None:
    judged = verdict(
        "busy",
        notes=(
            Note("shared", "shared by 1"),
            Note("stalled", "100 % busy at idle power: probably stalled"),
        ),
    )
    text = screen(fleet(node("n", busy_gpu(0, process("eve"), judged=judged))), 110)
    assert "eve · 100 % busy at idle power: probably stalled" in row(text, 0)


def test_failed_collectors_are_shown_and_absent_ones_are_not() -> None:
    runs = (
        CollectorRun(name="amd", outcome="absent", seconds=0, detail="no AMD driver"),
        CollectorRun(name="nvidia", outcome="failed", seconds=5, detail="driver not answering"),
    )
    text = screen(fleet(replace(samples.eight(), runs=runs)))
    assert text.splitlines()[1].strip() == "nvidia: driver not answering"
    assert "AMD" not in text


def test_a_machine_without_gpus_suggests_doctor_and_demo() -> None:
    text = screen(fleet(samples.no_gpu()))
    assert "laptop has no GPU" in text
    assert "fleet-smi doctor" in text and "fleet-smi demo" in text


def test_a_silent_node_shows_its_age_and_last_states_and_nothing_as_free() -> None:
    text = screen(fleet(samples.eight(), samples.silent()))
    assert "gpu07 · 4 × H100 80GB · SILENT for 4 min (last seen 14:02:11)" in text
    assert " 3  unknown  was free" in text
    assert "1 of 2 nodes · 2 s ago" in text.splitlines()[0]


def test_a_broken_gpu_of_a_silent_node_stays_broken() -> None:
    text = screen(fleet(replace(node("n", samples.lost_gpu(0)), silent=True, age_seconds=99.0)))
    assert " 0  broken" in text


def test_a_text_too_long_for_who_replaces_empty_cells() -> None:
    text = screen(fleet(samples.not_answering()), 60)
    assert " 0  broken  driver not answering since 14:02" in text


def test_the_processes_of_an_instance_are_listed_once_and_under_it() -> None:
    text = screen(fleet(samples.sliced()), processes=True)
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if "3g.20gb" in line)
    assert lines[at + 1].split()[:2] == ["31", "alice"]
    assert text.count("  alice") == 2


def test_an_unreadable_process_list_is_a_message() -> None:
    unlisted = gpu(0, verdict("busy"), unread={"processes": "no permission"}, processes=None)
    text = screen(fleet(node("n", unlisted)), processes=True)
    assert "processes could not be read: no permission" in text


def test_why_shows_the_reason_and_the_remedy() -> None:
    text = screen(fleet(samples.eight()), why=True)
    assert "bob, idle for 3 h, 16.2 GiB allocated (since 09:06, 5 h)" in text
    assert "Reboot the machine" in text
    assert "not measured: utilisation (not supported while profiling)" in text
    assert "allocated (since" not in screen(fleet(samples.eight()))


def test_an_empty_fleet_says_whether_it_is_empty_or_filtered() -> None:
    assert "No node has reported yet" in screen(fleet())
    filtered = replace(fleet(samples.eight()), nodes=())
    assert "No GPU matches" in screen(filtered)


@pytest.mark.parametrize("state", ["free", "busy", "held", "leased"])
def test_throttling_is_shown_whatever_the_state_and_in_short_where_there_is_no_room(
    state: State,
) -> None:
    note = Note("throttled", "throttled: thermal, 62 % of the last 10 min")
    judged = replace(verdict(state, reason="it is"), notes=(note,))
    for processes in ((), (process("alice", 60.0),)):
        view = fleet(node("n", gpu(0, judged, 60.0, processes=processes)))
        assert note.words in row(screen(view, 200), 0)
        assert "throttled" in row(screen(view, 80), 0)


def test_a_machine_whose_driver_is_slow_is_not_one_without_gpus() -> None:
    slow = CollectorRun(
        name="nvml", outcome="failed", seconds=4.0, detail="driver slow: 4 s so far", fault="slow"
    )
    text = screen(fleet(replace(samples.no_gpu(), runs=(slow,))))
    assert "waits for its driver: no GPU is read yet." in text
    assert "can see" not in text


def test_processes_have_their_load_and_on_a_wide_terminal_that_of_the_host() -> None:
    busy = samples.process(
        "alice", 54.1, busy_percent=96.0, cpu_percent=104.0, host_memory_bytes=samples.gib(4.1)
    )
    view = samples.fleet(samples.node("gpu01", samples.busy_gpu(0, busy)))
    for columns, shown in (
        (80, "19028  alice  96% SM  54.1 GiB  2 d 3 h  python train.py"),
        (120, "19028  alice  96% SM  54.1 GiB  104% CPU  4.1 GiB RAM  2 d 3 h  python train.py"),
    ):
        text = status.render(view, columns, Paint(enabled=False), processes=True, local=samples.utc)
        assert shown in text
