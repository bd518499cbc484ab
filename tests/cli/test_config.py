"""`fleet-smi config` and `--config` as a user runs them."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi.config import SETTINGS
from tests.cli.program import assert_error_line, run_fleet_smi


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home folder."""
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


def write_settings(home: Path, text: str) -> Path:
    file = home / ".config/fleet-smi/fleet-smi.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def show_json(env: dict[str, str]) -> dict[str, dict[str, Any]]:
    done = run_fleet_smi("config", "show", "--json", env=env)
    assert done.returncode == 0, done.stderr
    return {setting["name"]: setting for setting in msgspec.json.decode(done.stdout)["settings"]}


def test_show_lists_every_setting_and_its_origin(env: dict[str, str], tmp_path: Path) -> None:
    file = write_settings(tmp_path, '[node]\nname = "gpu07"\n[agent]\ninterval = "90s"\n')
    env["FLEET_SMI_HUB_PULL"] = "gpu01,gpu02:7071"
    settings = show_json(env)
    assert list(settings) == [setting.name for setting in SETTINGS]
    assert settings["node.name"] == {"name": "node.name", "value": "gpu07", "origin": f"{file}:2"}
    assert settings["agent.interval"]["value"] == "90s"
    assert settings["hub.pull"]["value"] == ["gpu01", "gpu02:7071"]
    assert settings["hub.pull"]["origin"] == "FLEET_SMI_HUB_PULL"
    assert settings["hub.listen"] == {
        "name": "hub.listen", "value": "127.0.0.1:7070", "origin": "default",
    }  # fmt: skip
    assert settings["agent.to"]["value"] is None


def test_show_prints_a_table(env: dict[str, str], tmp_path: Path) -> None:
    file = write_settings(tmp_path, '[node.labels]\nrack = "a"\n')
    lines = run_fleet_smi("config", "show", env=env).stdout.splitlines()
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["SETTING"].split() == ["VALUE", "FROM"]
    assert rows["node.labels"].split() == ["{", "rack", "=", '"a"', "}", f"{file}:1"]
    assert rows["agent.to"].split() == ["not", "set", "default"]


def test_show_hides_secrets(env: dict[str, str]) -> None:
    for name in ("AGENT_JOIN", "AGENT_SERVE_TOKEN", "HUB_PULL_TOKEN", "CLIENT_TOKEN"):
        env[f"FLEET_SMI_{name}"] = "hunter2"
    for flags in ((), ("--json",)):
        text = run_fleet_smi("config", "show", *flags, env=env).stdout
        assert "hunter2" not in text
        assert text.count("set, not shown") == 4


def test_check_finds_every_mistake(env: dict[str, str], tmp_path: Path) -> None:
    file = write_settings(tmp_path, "[node]\nnam = 1\n[agent]\nto = 'hub'\n")
    env["FLEET_SMI_CLIENT_HUB"] = "ftp://hub"
    done = run_fleet_smi("config", "check", env=env)
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        f"{file}:2: unknown key `nam` in [node]; did you mean `name`?",
        f"{file}:4: to = 'hub': is not a URL: write it like https://hub:7070",
        "FLEET_SMI_CLIENT_HUB: hub = 'ftp://hub': is not a URL: write it like https://hub:7070",
    ]


def test_check_finds_unknown_variables(env: dict[str, str]) -> None:
    env |= {"FLEET_SMI_LISTEN": ":7070", "FLEET_SMI_SIM": "/machine", "FLEET_SMI_DEBUG": "1"}
    assert run_fleet_smi("config", "show", env=env).returncode == 0
    done = run_fleet_smi("config", "check", env=env)
    assert done.returncode == 2
    assert done.stdout == "FLEET_SMI_LISTEN: unknown setting; did you mean FLEET_SMI_HUB_LISTEN?\n"


def test_check_prints_ok_without_mistakes(env: dict[str, str], tmp_path: Path) -> None:
    file = write_settings(tmp_path, "")
    done = run_fleet_smi("config", "check", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: ")
    assert str(file) in done.stdout


def test_init_writes_a_valid_file_and_never_overwrites(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "new/fleet-smi.toml"
    done = run_fleet_smi("config", "init", "--path", str(file), env=env)
    assert (done.returncode, done.stdout) == (0, f"wrote {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    checked = run_fleet_smi("config", "check", "--config", str(file), env=env).stdout
    assert checked.splitlines()[0] == f"ok: {file}"
    assert "when it is restarted" in checked
    before = file.read_text()
    again = run_fleet_smi("config", "init", "--path", str(file), env=env)
    assert_error_line(again, 2, f"{file} already exists and is not overwritten")
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_init_does_not_write_through_a_link(env: dict[str, str], tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "elsewhere")
    assert_error_line(
        run_fleet_smi("config", "init", "--path", str(link), env=env), 2, "already exists"
    )
    assert not (tmp_path / "elsewhere").exists()


def test_init_fails_in_one_line_if_it_cannot_write(env: dict[str, str]) -> None:
    done = run_fleet_smi("config", "init", "--path", "/proc/fleet-smi/x.toml", env=env)
    assert_error_line(done, 1, "cannot write /proc/fleet-smi/x.toml: No such file")


def test_config_reads_only_the_given_file(env: dict[str, str], tmp_path: Path) -> None:
    write_settings(tmp_path, '[node]\nname = "other"\n')
    mine = tmp_path / "mine.toml"
    mine.write_text("[verdict]\nsilent_after = 7\n")
    done = subprocess.run(
        [sys.executable, "-m", "fleet_smi", "config", "show", "--config", "mine.toml"],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert f"{mine}:2" in done.stdout
    assert "other" not in done.stdout


def test_without_an_action_the_actions_are_listed(env: dict[str, str]) -> None:
    for command, missing in (
        ("config", "missing action: show, check, init (see `fleet-smi config --help`)"),
        ("service", "missing action: install, uninstall; role: agent, hub"),
        ("ssh", "missing ACTION: trust"),
    ):
        assert_error_line(run_fleet_smi(command, env=env), 2, missing)


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "free",
        "doctor",
        "config show",
        "like gpustat",
        "like nvgpu list",
        "like cluster-smi",
        "hub token list",
        "hub user remove mei",
        "hub join-command",
        "nodes remove gpu01",
    ],
)
def test_config_refuses_a_missing_file(env: dict[str, str], command: str) -> None:
    for name in ("/no/such.toml", ""):
        done = run_fleet_smi(*command.split(), "--config", name, env=env)
        assert_error_line(done, 2, "which is not a file")


def test_config_may_come_before_or_after_the_subcommand(
    env: dict[str, str], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'[hub]\nstate = "{tmp_path / "mine"}"\n')
    flag = ("--config", str(mine))
    for arguments in (("hub", *flag, "token", "add"), ("hub", "token", "add", *flag)):
        assert run_fleet_smi(*arguments, "--role", "viewer", env=env).returncode == 0
    listed = run_fleet_smi("hub", "token", "list", "--json", *flag, env=env)
    assert len(msgspec.json.decode(listed.stdout)["tokens"]) == 2
