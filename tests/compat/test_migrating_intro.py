"""The introduction of the migration guide: its first three commands work."""

import os
from pathlib import Path

import pytest

from tests.cli.program import run_fleet_smi
from tests.compat.migration_guide import migration_commands
from tests.end_to_end.programs import Lab, LoopbackHub

TITLE = "Coming from another tool"
FILES = {
    "hosts.txt": "192.0.2.1\n",
    "config.ini": "[common]\nuser = monitor\nhosts = 192.0.2.2\n",
    "nvgpu_master.cfg": "AGENTS = ['self', 'http://192.0.2.3:1080']\n",
    "cluster-smi.yml": "router_ip: 192.0.2.4\n",
}


def test_one_file_is_made_of_all_and_a_hub_runs_on_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    migrate, check, hub = (
        [_here(word, tmp_path) for word in each.split()] for each in migration_commands(TITLE)
    )
    done = run_fleet_smi(*migrate[1:], env=env)
    assert done.returncode == 0, done.stderr
    assert "node_info_password_file" in run_fleet_smi(*check[1:], env=env).stdout
    env["FLEET_SMI_HUB_NODE_INFO_PASSWORD"] = "sesame"
    assert run_fleet_smi(*check[1:], env=env).stdout.startswith("ok: ")
    monkeypatch.setenv("FLEET_SMI_HUB_NODE_INFO_PASSWORD", "sesame")
    running = LoopbackHub(lab, *hub[2:])
    assert len(running.fleet().nodes) >= len(FILES)


def _here(word: str, folder: Path) -> str:
    return str(folder / Path(word).name) if Path(word).suffix else word
