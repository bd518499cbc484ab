"""The file outlet in a real folder: complete files, one per node, whatever else is there."""

import json
import os
import stat
import threading
import time
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi import config
from fleet_smi.errors import Unreachable
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.node.outlets.file import FileOutlet, create_outlet
from fleet_smi.wire.report import decode_report
from tests.builders import gpu, process, snapshot
from tests.machines import wait_until

TAKEN = replace(snapshot(gpu(), sequence=1), node_id="0123456789abcdef")
NAME = "gpu01.01234567.fsmi"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_has_the_latest_report_and_nothing_else(tmp_path: Path) -> None:
    outlet = FileOutlet(str(tmp_path))
    outlet.deliver(TAKEN)
    outlet.deliver(replace(TAKEN, sequence=2))
    assert names(tmp_path) == [NAME]
    (read,) = decode_report((tmp_path / NAME).read_bytes()).snapshots
    assert read == replace(TAKEN, sequence=2)


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_the_mode_is_the_chosen_one_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        FileOutlet(str(tmp_path), mode=mode).deliver(TAKEN)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == mode


@pytest.mark.parametrize(
    ("flags", "command"),
    [
        ({}, None),
        ({"agent.drop_mode": "0600"}, "python train.py"),
        ({"agent.drop_commands": "full"}, "python train.py"),
        ({"agent.drop_mode": "0600", "agent.drop_commands": "name"}, None),
    ],
)
def test_a_file_that_everybody_can_read_has_program_names_only(
    tmp_path: Path, flags: dict[str, str], command: str | None
) -> None:
    running = process(1, name="python", command="python train.py")
    settings = config.load({"HOME": "/"}, flags=flags).agent
    create_outlet(str(tmp_path), OutletOptions(settings)).deliver(
        replace(TAKEN, gpus=(gpu(processes=(running,)),))
    )
    (read,) = decode_report((tmp_path / NAME).read_bytes()).snapshots
    (written,) = read.gpus[0].processes or ()
    assert (written.name, written.command) == ("python", command)


def test_two_nodes_with_one_name_have_two_files(tmp_path: Path) -> None:
    outlet = FileOutlet(str(tmp_path))
    outlet.deliver(TAKEN)
    outlet.deliver(replace(TAKEN, node_id="fedcba9876543210"))
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("name", ["../../etc/passwd", ".hidden", "a/b", "x\n", "ü", "-rf"])
def test_no_node_name_escapes_the_folder_or_makes_a_hidden_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    FileOutlet(str(folder)).deliver(replace(TAKEN, name=name))
    (written,) = names(folder)
    assert not written.startswith((".", "-"))
    assert names(tmp_path) == ["drop"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder, victim = tmp_path / "drop", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("untouched")
    (folder / NAME).symlink_to(victim)
    FileOutlet(str(folder)).deliver(TAKEN)
    assert victim.read_text() == "untouched"
    assert not (folder / NAME).is_symlink()


def test_what_a_killed_writer_of_this_node_left_is_removed_and_nothing_of_others(
    tmp_path: Path,
) -> None:
    old = time.time() - 3600
    for name in (".gpu01.01234567.aaaa.half", ".gpu02.fedcba98.bbbb.half"):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (old, old))
    (tmp_path / ".gpu01.01234567.cccc.half").write_bytes(b"being written")
    FileOutlet(str(tmp_path)).deliver(TAKEN)
    assert names(tmp_path) == [
        ".gpu01.01234567.cccc.half",
        ".gpu02.fedcba98.bbbb.half",
        NAME,
    ]


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="No such file or directory"):
        FileOutlet(str(tmp_path / "gone")).deliver(TAKEN)


def test_a_folder_that_comes_back_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outlet = FileOutlet(str(tmp_path / "away"))
    outlet.publish(TAKEN)
    wait_until(lambda: "No such file" in caplog.text)
    (tmp_path / "away").mkdir()
    outlet.publish(TAKEN)
    wait_until(lambda: names(tmp_path / "away") == [NAME])
    outlet.close()
    assert caplog.text.count("No such file") == 1
    assert "recovered=true" in caplog.text


def test_a_disk_that_hangs_delays_neither_a_tick_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(FileOutlet, "_write", lambda *_: hangs.wait())
    outlet = FileOutlet(str(tmp_path))
    for sequence in range(5):
        outlet.publish(replace(TAKEN, sequence=sequence))
    outlet.close()
    hangs.set()
    wait_until(lambda: "drop" not in {thread.name for thread in threading.enumerate()})


def test_a_file_for_readers_of_gpustat_is_its_json_under_the_hosts_name(tmp_path: Path) -> None:
    outlet = FileOutlet(str(tmp_path), file_format="gpustat")
    outlet.deliver(replace(TAKEN, name="cml10.lab.example"))
    outlet.deliver(replace(TAKEN, name="cml10.lab.example"))
    assert names(tmp_path) == ["cml10.lab.example.json"]
    reported = json.loads((tmp_path / "cml10.lab.example.json").read_bytes())
    assert (reported["hostname"], reported["gpus"][0]["memory.total"]) == (
        "cml10.lab.example",
        81559,
    )
    assert datetime.fromisoformat(reported["query_time"]).timestamp() == TAKEN.taken_at


@pytest.mark.parametrize("name", ["../../etc/passwd", ".hidden", "a/b", "x\n", "ü", "-rf", ".."])
def test_no_host_name_escapes_the_folder_or_makes_a_hidden_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    FileOutlet(str(folder), file_format="gpustat").deliver(replace(TAKEN, name=name))
    (written,) = names(folder)
    assert not written.startswith((".", "-"))
    assert names(tmp_path) == ["drop"]


def test_readers_never_see_half_a_gpustat_file(tmp_path: Path) -> None:
    outlet = FileOutlet(str(tmp_path), file_format="gpustat")
    outlet.deliver(TAKEN)
    done = threading.Event()

    def write() -> None:
        for sequence in range(200):
            outlet.deliver(replace(TAKEN, gpus=TAKEN.gpus * (1 + sequence % 40)))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert json.loads((tmp_path / "gpu01.json").read_bytes())["hostname"] == "gpu01"
    writer.join()
