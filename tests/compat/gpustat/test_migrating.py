"""The migration guide from gpustat on a shared disk: its steps work."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.compat.migration_guide import migration_commands, run_curl
from tests.end_to_end.programs import Lab, LoopbackHub
from tests.machines import wait_until
from tests.sim.fixtures import Simulated

TITLE = "gpustat"
LOOK = "fleet-smi --dir '/NFS/status-gpu/cml*'"
HUB = "fleet-smi hub --files '/NFS/status-gpu/cml*'"
DROP = "fleet-smi agent --drop /NFS/status-gpu --drop-format gpustat-text"
ALIAS = "alias gpustat='fleet-smi like gpustat'"
LINES = "fleet-smi like gpustat -cup"
DOCUMENT = "fleet-smi like gpustat --json"
WITH_TOKEN = 'curl -H "Authorization: Bearer $TOKEN" '
TEXT = WITH_TOKEN + '"http://gpuhub:7070/gpustat.txt?color"'
PAGE = WITH_TOKEN + '"http://gpuhub:7070/gpustat.html?nodes=cml10,cml11"'
WRITTEN = (
    "cml10                       Sun Nov 15 19:30:14 2026  550.90.07\n"
    "[0] NVIDIA GeForce RTX 3090 | 34°C,   0 % |     4 / 24576 MB |\n"
    "[1] NVIDIA GeForce RTX 3090 | 71°C,  97 % | 13578 / 24576 MB | alice:python/11108(11264M)\n"
)


def words_of(command: str, folder: Path) -> list[str]:
    """The words after the program's name, with this folder in place of the one on NFS."""
    return shlex.split(command.replace("/NFS/status-gpu", str(folder)))[1:]


def test_every_command_of_the_section_is_run_here_and_no_other() -> None:
    assert migration_commands(TITLE) == [LOOK, HUB, DROP, ALIAS, LINES, DOCUMENT, TEXT, PAGE]


def test_the_folder_is_read_as_it_is_and_an_agent_can_fill_it(
    lab: Lab, simulated: Simulated, tmp_path: Path
) -> None:
    folder = tmp_path / "status-gpu"
    folder.mkdir()
    (folder / "cml10").write_text(WRITTEN)
    env = simulated(Scenario(gpus=[SimGpu()])) | {"FLEET_SMI_NODE_NAME": "cml11"}
    lab.start(*words_of(DROP, folder), env=env, log=lab.folder / "log")
    wait_until((folder / "cml11").exists)
    shown = run_fleet_smi(*words_of(LOOK, folder), env=env).stdout
    assert "2 of 2 nodes" in shown

    hub = LoopbackHub(lab, *words_of(HUB, folder)[1:])
    wait_until(lambda: len(hub.reporting()) == 2)
    token = hub.command("token", "add", "--role", "viewer").stdout.strip()
    wait_until(lambda: b"cml10" in run_curl(TEXT, hub.url, TOKEN=token))
    assert "\x1b[36m[0]" in run_curl(TEXT, hub.url, TOKEN=token).decode()
    assert b"alice" in run_curl(PAGE, hub.url, TOKEN=token)

    requests = env | {"FLEET_SMI_CLIENT_HUB": hub.url}
    lines = run_fleet_smi(*words_of(LINES, folder), env=requests).stdout
    assert "| alice:python/11108(11264M)\n" in lines
    assert without_times(by_its_old_name("-cup", requests)) == without_times(lines)
    documents = json.loads(run_fleet_smi(*words_of(DOCUMENT, folder), env=requests).stdout)
    assert [each["hostname"] for each in documents] == ["cml10", "cml11"]


def without_times(lines: str) -> str:
    """The text without its times: the headers have the time of each report."""
    return re.sub(r"\d\d:\d\d:\d\d", "", lines)


def by_its_old_name(flags: str, env: dict[str, str]) -> str:
    """What `gpustat` prints in a shell that has the alias."""
    programs = Path(sys.executable).parent
    shell = ["sh", "-c", f"{ALIAS}\ngpustat {flags}"]
    path = {"PATH": f"{programs}:{env['PATH']}"}
    return subprocess.run(shell, env=env | path, capture_output=True, text=True, check=True).stdout
