"""`fleet-smi migrate` as a user runs it."""

import os
import tomllib
from pathlib import Path

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import MISSING_FOLDER

INI = "[common]\nuser = monitor\nhosts = gpu01, gpu02\nkey_filename = /etc/key\n"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.fixture
def ini(tmp_path: Path) -> str:
    file = tmp_path / "config.ini"
    file.write_text(INI)
    return str(file)


def test_settings_go_to_stdout_and_notes_to_stderr(env: dict[str, str], ini: str) -> None:
    done = run_fleet_smi("migrate", ini, env=env)
    assert done.returncode == 0
    assert tomllib.loads(done.stdout)["hub"] == {
        "ssh": ["monitor@gpu01", "monitor@gpu02"],
        "ssh_key": "/etc/key",
    }
    assert f"{ini} (web-gpu-monitor)" in done.stderr
    assert "imported  user, hosts in hub.ssh: monitor@gpu01, monitor@gpu02" in done.stderr
    assert "skipped   host keys: web-gpu-monitor accepts any" in done.stderr


def test_what_is_written_is_a_settings_file_and_nothing_is_overwritten(
    env: dict[str, str], ini: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "fleet-smi.toml")
    assert run_fleet_smi("migrate", ini, "--out", out, env=env).returncode == 0
    shown = run_fleet_smi("config", "show", "--config", out, env=env)
    assert '["monitor@gpu01", "monitor@gpu02"]' in shown.stdout, shown.stderr
    before = Path(out).read_text()
    again = run_fleet_smi("migrate", ini, "--out", out, env=env)
    assert_error_line(again, 2, "already exists and is not overwritten")
    assert Path(out).read_text() == before


def test_hosts_are_imported_for_the_host_type_that_is_given(
    env: dict[str, str], tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("gpu01\ngpu02:2222\n")
    printed = run_fleet_smi("migrate", str(hosts), "--as", "ssh", env=env).stdout
    assert tomllib.loads(printed) == {"hub": {"ssh": ["gpu01", "gpu02:2222"]}}


def test_code_in_a_settings_file_is_never_executed(env: dict[str, str], tmp_path: Path) -> None:
    trap, agents = tmp_path / "run", tmp_path / "nvgpu_master.cfg"
    agents.write_text(f"open({str(trap)!r}, 'w')\nAGENTS = ['self']\n")
    done = run_fleet_smi("migrate", str(agents), env=env)
    assert tomllib.loads(done.stdout) == {"hub": {"include_self": True}}
    assert "line 1: it is code, which is not executed" in done.stderr
    assert not trap.exists()


@pytest.mark.parametrize("body", [b"hello, world\n", b"\xff\xfe\x00", b"x" * (1 << 20) + b"y"])
def test_a_file_of_unknown_format_is_one_line(
    env: dict[str, str], tmp_path: Path, body: bytes
) -> None:
    file = tmp_path / "notes"
    file.write_bytes(body)
    assert_error_line(run_fleet_smi("migrate", str(file), env=env), 2, "settings file")


def test_a_file_that_is_not_there_is_one_line(env: dict[str, str]) -> None:
    done = run_fleet_smi("migrate", f"{MISSING_FOLDER}/hosts.txt", env=env)
    assert_error_line(done, 2, f"cannot read {MISSING_FOLDER}/hosts.txt: No such file")


def test_an_empty_list_gives_settings_without_hosts(env: dict[str, str], tmp_path: Path) -> None:
    agents, out = tmp_path / "a.cfg", tmp_path / "out.toml"
    agents.write_text("AGENTS = []\n")
    done = run_fleet_smi("migrate", str(agents), "--out", str(out), env=env)
    assert done.returncode == 0 and "AGENTS: it is empty" in done.stderr
    assert tomllib.loads(out.read_text()) == {}


def test_no_importable_setting_is_an_error_and_writes_nothing(
    env: dict[str, str], tmp_path: Path
) -> None:
    agents, out = tmp_path / "a.cfg", tmp_path / "out.toml"
    agents.write_text("AGENTS = hosts()\n")
    done = run_fleet_smi("migrate", str(agents), "--out", str(out), env=env)
    assert done.returncode == 1 and "it is computed" in done.stderr
    assert "no setting could be imported" in done.stderr and not out.exists()
