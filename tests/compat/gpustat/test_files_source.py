"""The files source on a shared folder that cron fills with gpustat output."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.compat.gpustat.codec import node_json
from fleet_smi.errors import (
    DeliveryError,
    EmptyReport,
    TruncatedReport,
    Undecodable,
    Unreachable,
)
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.polled import PolledFleet
from fleet_smi.hub.file_hosts import FileHosts
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.snapshot import Fault, Gpu, Snapshot
from fleet_smi.model.verdict.thresholds import Thresholds
from tests.builders import NOON, gpu, snapshot
from tests.compat.seed_samples import seed_sample_path
from tests.delivery.source_runner import run_source

TEXT = (
    "cml10                       Sun Nov 15 19:30:14 2026  550.90.07\n"
    "[0] NVIDIA GeForce RTX 3090 | 34°C,   0 % |     4 / 24576 MB |\n"
    "[1] NVIDIA GeForce RTX 3090 | 71°C,  97 % | 13578 / 24576 MB | alice:python/11108(11264M)\n"
)


class Clock:
    """The hub's clock, turned by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def write(path: Path, text: str | bytes, at: float = NOON) -> None:
    """As a shell's `>` does: in place."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (at, at))


def look(path: Path | str, now: float = NOON) -> Sequence[Delivery]:
    return asyncio.run(FilesSource(str(path), clock=lambda: now).poll())


def fleet_of(path: Path | str, clock: Clock) -> PolledFleet:
    return PolledFleet([FilesSource(str(path), clock=clock)], Thresholds(), clock)


def node(view: FleetView, name: str) -> NodeView:
    (found,) = [each for each in view.nodes if each.name == name]
    return found


def test_files_of_reports_text_and_json_lie_side_by_side(tmp_path: Path) -> None:
    write(tmp_path / "cml10", TEXT)
    write(tmp_path / "cml11.json", node_json(snapshot(gpu()), "2026-11-15T19:30:14"))
    write(tmp_path / "cml12.txt", TEXT)
    found = {each.target: each.result for each in look(tmp_path)}
    assert {name: what.node_id for name, what in found.items() if isinstance(what, Snapshot)} == {
        name: f"gpustat-{name}" for name in ("cml10", "cml11", "cml12")
    }


def test_a_pattern_names_the_files_that_are_read(tmp_path: Path) -> None:
    for name in ("cml10", "cml11", "other"):
        write(tmp_path / name, TEXT)
    assert [each.target for each in look(tmp_path / "cml*")] == ["cml10", "cml11"]
    with pytest.raises(Unreachable, match=r"gone/cml\*: the folder cannot be read"):
        look(tmp_path / "gone" / "cml*")
    with pytest.raises(Unreachable, match=r"/vm\*: no file matches"):
        look(tmp_path / "vm*")


def test_a_folder_whose_name_looks_like_a_pattern_is_still_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lab[1]"
    folder.mkdir()
    write(folder / "cml10", TEXT)
    assert [each.target for each in look(folder)] == ["cml10"]


@pytest.mark.parametrize(
    "name",
    [
        *("index.html", "style.css", "page.js", "load_data.csv", "NOTES.md", "README"),
        *("cml10~", "cml10.tmp", ".cml10.swp", ".nfs00000001", ".hidden"),
    ],
)
def test_pages_notes_and_drafts_are_ignored(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "<html>")
    with pytest.raises(Unreachable, match="no file of a node in this folder"):
        look(tmp_path)


def test_a_name_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path / os.fsdecode(b"c\xffml\n10"), TEXT)
    (delivery,) = look(tmp_path)
    assert delivery.target == "c ml 10"
    assert isinstance(delivery.result, Snapshot)


@pytest.mark.parametrize(
    "body, kind, message",
    [
        ("", EmptyReport, "cml14: is empty"),
        (TEXT[:150], TruncatedReport, "cml14: breaks off"),
        ('{"hostname": "cml14", "gpus": [', TruncatedReport, "cml14: it breaks off"),
        ("[0] A100 | \x1b[0;", TruncatedReport, "half an escape code"),
    ],
    ids=["empty", "text", "json", "escape"],
)
def test_an_empty_or_truncated_file_is_named_and_hides_no_other(
    tmp_path: Path, body: str, kind: type[DeliveryError], message: str
) -> None:
    write(tmp_path / "cml10", TEXT)
    write(tmp_path / "cml14", body)
    good, bad = look(tmp_path)
    assert isinstance(good.result, Snapshot)
    assert type(bad.result) is kind
    assert message in str(bad.result)
    view = fleet_of(tmp_path, Clock()).view()
    assert [each.name for each in view.nodes] == ["cml10", "cml14"]
    assert node(view, "cml14").silent


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("name", ["cml14", "cml14.txt", "cml14.json"])
def test_no_error_contains_text_of_a_file_that_is_something_else(
    tmp_path: Path, name: str, end: str
) -> None:
    for secret in ("root:$6$hunter2:19000::::::", "hunter2\nhunter2", '{"hunter2": "hunter2"}'):
        write(tmp_path / name, secret + end)
        (delivery,) = look(tmp_path)
        assert isinstance(delivery.result, Undecodable)
        assert "hunter2" not in str(delivery.result)


def test_a_dead_hosts_last_file_looks_dead(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "cml10", TEXT)
    fleet = fleet_of(tmp_path, clock)
    assert node(fleet.view(), "cml10").silent is False
    clock.now += 179.0
    assert node(fleet.view(), "cml10").silent is False
    clock.now += 2.0
    old = node(fleet.view(), "cml10")
    assert old.silent
    assert old.age_seconds == pytest.approx(181.0)
    assert {each.verdict.state for each in old.gpus} == {"unknown"}


def test_age_is_by_when_it_was_written_whatever_date_it_says(tmp_path: Path) -> None:
    write(tmp_path / "cml10", TEXT.replace("2026", "1999"), at=NOON - 50)
    (delivery,) = look(tmp_path)
    assert delivery.age_seconds == pytest.approx(50.0)
    (seen,) = fleet_of(tmp_path, Clock()).view().nodes
    assert (seen.clock_skew_seconds, seen.interval_seconds) == (None, 60.0)


def test_a_file_that_is_just_being_written_is_no_flash_of_garbage(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "cml10", TEXT)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    for half in ("", TEXT[:100], TEXT[:180]):
        clock.now += 3.0
        write(tmp_path / "cml10", half, at=clock.now)
        seen = node(fleet.view(), "cml10")
        assert (len(seen.gpus), seen.trouble, seen.silent) == (2, None, False)
    clock.now += 3.0
    write(tmp_path / "cml10", TEXT.replace("97 %", "12 %"), at=clock.now)
    assert node(fleet.view(), "cml10").gpus[1].busy_percent == 12


def test_a_file_that_stays_truncated_is_an_error_and_the_last_good_data_stays(
    tmp_path: Path,
) -> None:
    clock = Clock()
    write(tmp_path / "cml10", TEXT)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    write(tmp_path / "cml10", "", at=clock.now)
    assert node(fleet.view(), "cml10").trouble is None
    clock.now += 11.0
    seen = node(fleet.view(), "cml10")
    assert seen.trouble is not None
    assert "is empty" in seen.trouble
    assert [each.verdict.state for each in seen.gpus] == ["free", "busy"]
    write(tmp_path / "cml10", TEXT, at=clock.now)
    assert node(fleet.view(), "cml10").trouble is None


FOUR = TEXT + TEXT.partition("\n")[2].replace("[0]", "[2]").replace("[1]", "[3]")


def test_a_text_cut_at_the_end_of_a_line_breaks_no_gpu(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "cml10", FOUR)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    for lines in (2, 4):
        clock.now += 3.0
        write(tmp_path / "cml10", "".join(FOUR.splitlines(keepends=True)[:lines]), at=clock.now)
        seen = node(fleet.view(), "cml10")
        assert [each.fault for each in seen.gpus] == [None] * 4
    clock.now += 3.0
    write(tmp_path / "cml10", FOUR.replace("97 %", "12 %"), at=clock.now)
    assert node(fleet.view(), "cml10").gpus[3].busy_percent == 12


def test_a_gpu_that_stays_away_from_a_text_is_missing_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "cml10", FOUR)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    write(tmp_path / "cml10", TEXT, at=clock.now + 1)
    clock.now += 5.0
    assert {each.fault for each in node(fleet.view(), "cml10").gpus} == {None}
    clock.now += 11.0
    states = [each.verdict.state for each in node(fleet.view(), "cml10").gpus]
    assert states == ["free", "busy", "broken", "broken"]


def test_a_gpu_missing_between_others_is_broken_on_the_next_read(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "cml10", FOUR)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    clock.now += 1.0
    write(tmp_path / "cml10", FOUR.replace("[1] NVIDIA", "# NVIDIA"), at=clock.now)
    assert node(fleet.view(), "cml10").gpus[1].verdict.state == "broken"


def document(*cards: Gpu) -> bytes:
    return node_json(snapshot(*cards), "2026-11-15T19:30:14")


def test_of_two_files_of_one_host_the_newest_is_read(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "vm", TEXT, at=NOON - 30)
    write(tmp_path / "vm.json", document(gpu(0)), at=NOON - 10)
    fleet = fleet_of(tmp_path, clock)
    assert [each.uuid for each in node(fleet.view(), "vm").gpus] == [gpu(0).uuid]
    (delivery,) = look(tmp_path)
    assert delivery.age_seconds == pytest.approx(10.0)
    write(tmp_path / "vm", TEXT, at=NOON - 5)
    (delivery,) = look(tmp_path)
    assert delivery.age_seconds == pytest.approx(5.0)


def test_a_folder_beside_a_hosts_file_does_not_hide_it(tmp_path: Path) -> None:
    write(tmp_path / "vm.json", document(gpu(0)), at=NOON - 10)
    (tmp_path / "vm").mkdir()
    (delivery,) = look(tmp_path)
    assert isinstance(delivery.result, Snapshot)


def test_a_host_that_goes_from_text_to_json_keeps_its_gpus(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "vm", TEXT)
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    clock.now += 60.0
    write(tmp_path / "vm.json", document(gpu(0), gpu(1)), at=clock.now)
    seen = node(fleet.view(), "vm")
    assert [each.uuid for each in seen.gpus] == [gpu(0).uuid, gpu(1).uuid]
    assert [each.fault for each in seen.gpus] == [None, None]


def test_a_gpu_that_json_reports_as_lost_is_one_gpu(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "vm.json", document(gpu(0), gpu(1)))
    fleet = fleet_of(tmp_path, clock)
    fleet.view()
    clock.now += 60.0
    lost = replace(gpu(1), fault=Fault(kind="lost", detail="GPU is lost"))
    write(tmp_path / "vm.json", document(gpu(0), lost), at=clock.now)
    kinds = [each.fault and each.fault.kind for each in node(fleet.view(), "vm").gpus]
    assert kinds == [None, "lost"]


def test_a_hub_takes_each_minutes_file_once(tmp_path: Path) -> None:
    write(tmp_path / "cml10", TEXT)
    with run_source(
        FilesSource(str(tmp_path), interval_seconds=0.01, grace_seconds=0.0)
    ) as received:
        received.wait_for_sequence(0)
        write(tmp_path / "cml10", "")
        assert isinstance(received.wait_for_error(), EmptyReport)
        write(tmp_path / "cml10", TEXT, at=NOON + 60)
        received.wait_for_sequence(0, times=2)
    assert len(received.snapshots) == 2
    assert received.snapshots[0].taken_at < received.snapshots[1].taken_at


def test_what_gpustat_web_serves_is_a_node_for_each_of_its_hosts(tmp_path: Path) -> None:
    text = TEXT.replace("cml10", "gpu01") + TEXT.replace("cml10", "gpu02") + "(gpu03) Timeout\n"
    write(tmp_path / "gpustat.txt", text)
    found = {each.target: each.result for each in look(tmp_path)}
    assert set(found) == {"gpu01", "gpu02", "gpu03"}
    assert isinstance(found["gpu03"], Unreachable)


def test_the_blogs_own_folder_shows_every_host_and_what_ails_it(tmp_path: Path) -> None:
    for path in seed_sample_path("nfs-status-gpu").iterdir():
        write(tmp_path / path.name, path.read_bytes())
    view = fleet_of(f"{tmp_path}/cml*", Clock()).view()
    assert [each.name for each in view.nodes] == ["cml10", "cml11", "cml14", "cml16", "cml19"]
    assert view.summary.nodes_reporting == 3
    assert {each.name: each.trouble for each in view.nodes if each.trouble}.keys() == {
        "cml14",
        "cml19",
    }
    assert view.summary.ghost == 3


def web_text(*hosts: str) -> str:
    """What gpustat-web prints for several hosts, each with an idle GPU."""
    header = TEXT.splitlines()[0]
    idle = TEXT.splitlines()[1]
    return "".join([f"{header.replace('cml10', host)}\n{idle}\n" for host in hosts])


@pytest.mark.parametrize("first", ["cml10", "web"])
def test_a_file_of_several_hosts_does_not_report_for_the_host_of_another_file(
    tmp_path: Path, first: str
) -> None:
    clock, texts = Clock(), {"cml10": TEXT, "web": web_text("cml10", "cml11")}
    fleet = fleet_of(tmp_path, clock)
    for name in (first, *({*texts} - {first})):
        write(tmp_path / name, texts[name])
        fleet.view()
    clock.now += 1
    view = fleet.view()
    assert sorted(each.name for each in view.nodes) == ["cml10", "cml10", "cml11"]
    assert len({each.node_id for each in view.nodes}) == 3
    by_file = {len(each.gpus): each for each in view.nodes if each.name == "cml10"}
    assert by_file[2].gpus[1].verdict.state == "busy"
    assert by_file[1].gpus[0].verdict.state == "free"
    warned = [
        each for each in view.nodes if any("only one file" in run.detail for run in each.runs)
    ]
    assert [len(each.gpus) for each in warned] == [1 if first == "cml10" else 2]


def test_a_host_belongs_to_another_file_once_the_first_does_not_list_it(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path / "web", web_text("cml10", "cml11"))
    source = FilesSource(str(tmp_path), clock=clock)
    assert [each.target for each in asyncio.run(source.poll())] == ["cml10", "cml11"]
    write(tmp_path / "cml10", TEXT)
    assert len({each.target for each in asyncio.run(source.poll())}) == 3
    write(tmp_path / "web", web_text("cml11", "cml12"))
    asyncio.run(source.poll())
    assert {each.target for each in asyncio.run(source.poll())} == {"cml10", "cml11", "cml12"}
    (tmp_path / "web").unlink()
    gone = [each.target for each in asyncio.run(source.poll()) if each.result is None]
    assert sorted(gone) == ["cml11", "cml12", "web"]


def test_a_file_in_another_folder_does_not_report_for_a_host(tmp_path: Path) -> None:
    clock, folders = Clock(), [tmp_path / "open", tmp_path / "lab"]
    for folder in folders:
        folder.mkdir()
    hosts = FileHosts([str(folder) for folder in reversed(folders)])
    sources = [FilesSource(str(folder), clock=clock, hosts=hosts) for folder in folders]
    fleet = PolledFleet(sources, Thresholds(), clock)
    for _ in range(3):  # whichever is read first: the order of the settings decides
        clock.now += 1
        write(folders[0] / "cml10", web_text("cml10"), clock.now)
        write(folders[1] / "cml10", TEXT, clock.now)
        fleet.view()
    nodes = {each.node_id: each for each in fleet.view().nodes}
    assert len(nodes) == 2
    assert len(nodes["gpustat-cml10"].gpus) == 2
    assert nodes["gpustat-cml10"].gpus[1].verdict.state == "busy"
