"""The recipes work: each block of the page is run, as far as its tool is here.

JupyterHub and Open OnDemand are not installed for tests. The hooks of the first are called with a
stand-in spawner, which has what hooks of JupyterHub use; of the second's templates the commands are
run and the figures filled in, as ERB would.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fleet_smi.cli.main import COMMANDS, build_parser
from sim.scenario import Scenario, SimGpu
from tests.builders import gpu
from tests.cli.program import run_json
from tests.cli.status_tables import taken
from tests.cli.tmux import Tmux
from tests.docs.pages import code_blocks, page
from tests.machines import UserProcesses, require_program, wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated

RECIPES = page("docs/recipes.md")
SPAWNER = """
import asyncio, json, subprocess, sys
from types import SimpleNamespace as Stand

c = Stand(Spawner=Stand())
scope = {"get_config": lambda: c}
exec(sys.stdin.read(), scope)
spawner = Stand(name="", user=Stand(name="alice"), user_options={})
"""
AS_PROCESS = """
print(c.Spawner.options_form(spawner))
spawner.user_options = c.Spawner.options_from_form({"gpus": ["2"]})
c.Spawner.pre_spawn_hook(spawner)
sys.stdout.flush()
sys.exit(subprocess.call(spawner.cmd))
"""
AS_CONTAINER = """
offered = lambda: subprocess.run(["fleet-smi", "free"], capture_output=True, text=True).stdout

async def life():
    await c.Spawner.pre_spawn_hook(spawner)
    print(json.dumps(spawner.extra_host_config))
    print(offered(), end="")
    await c.Spawner.post_stop_hook(spawner)
    print(offered(), end="")

asyncio.run(life())
"""


_UNREACHABLE = 3  # the exit code


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated, tmp_path: Path) -> dict[str, str]:
    """A machine with three free GPUs of four, and `fleet-smi` on the PATH."""
    scenario = Scenario(gpus=[taken(people.start(), 10, 90), SimGpu(), SimGpu(), SimGpu()])
    env = simulated(scenario) | {"FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases")}
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("jupyterhub-singleuser", "jupyter", "interpreter"):
        (programs / name).write_text('#!/bin/sh\necho "gpus $CUDA_VISIBLE_DEVICES: $*"\n')
        (programs / name).chmod(0o755)
    folders = (programs, Path(sys.executable).parent, env["PATH"])
    return env | {"PATH": ":".join(map(str, folders)), "HOME": str(tmp_path)}


def run(*command: str, env: dict[str, str], text: str = "") -> str:
    """Return what a command prints; a hub that did not answer in time is asked again."""
    done: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        done[:] = [
            subprocess.run(
                command,
                env=env,
                input=text,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
        ]
        # A status line waits for two seconds only, which a busy machine may not keep.
        return done[0].returncode != _UNREACHABLE

    wait_until(is_answered)
    assert done[0].returncode == 0, done[0].stdout + done[0].stderr
    return done[0].stdout


def test_the_prompt_and_the_aliases(env: dict[str, str]) -> None:
    prompt, aliases = code_blocks(RECIPES, "bash")
    shown = run("bash", "--norc", "-c", f'{prompt}\nprintf "%s" "${{PS1@P}}"', env=env)
    assert shown.startswith("[3 free, 1 mine] ")
    names = re.findall(r'^alias (\w+)="fleet-smi (.+)"$', aliases, re.MULTILINE)
    assert len(names) == len(aliases.splitlines())
    for name, command in names:
        arguments = shlex.split(command) + {"srun": ["-n", "2", "--", "x"], "scancel": ["1"]}.get(
            name, []
        )
        known = arguments[0] if arguments[0] in COMMANDS else "status"
        build_parser(known).parse_args(arguments[known != "status" :])


def test_the_status_line_of_tmux(env: dict[str, str], tmp_path: Path) -> None:
    require_program("tmux")
    (settings,) = code_blocks(RECIPES, "tmux")
    (tmp_path / "conf").write_text(settings)
    # In the terminal of another tmux: only one with a client draws a status line.
    inner = ["env", "-u", "TMUX", "tmux", "-S", str(tmp_path / "s"), "-f", str(tmp_path / "conf")]
    outer = Tmux(tmp_path, [*inner, "new-session", "cat"], env, (100, 10))
    try:
        outer.wait_for("GPUs 3/4 free")
    finally:
        run(*inner, "kill-server", env=env)
        outer.close()


def test_the_tasks_of_vs_code(env: dict[str, str]) -> None:
    (text,) = code_blocks(RECIPES, "json")
    tasks = {task["label"]: task for task in msgspec.json.decode(text)["tasks"]}
    values = {"${command:python.interpreterPath}": "interpreter", "${file}": "/x/train.py"}
    work = [values.get(word, word) for word in tasks.pop("Run this file on a free GPU")["args"]]
    assert run("fleet-smi", *work, env=env) == "gpus 1: /x/train.py\n"
    assert run("fleet-smi", *tasks.pop("Who has which GPU")["args"], env=env).startswith("WHO")
    (rest,) = tasks.values()
    build_parser("top").parse_args(rest["args"][1:])


def test_the_hooks_of_jupyterhub(env: dict[str, str]) -> None:
    as_process, as_container = code_blocks(RECIPES, "python")
    shown = run(sys.executable, "-c", SPAWNER + AS_PROCESS, env=env, text=as_process)
    form, server = shown.splitlines()
    assert form.startswith('GPUs (3 free now): <input name="gpus"')
    assert server == "gpus 1,2: "
    shown = run(sys.executable, "-c", SPAWNER + AS_CONTAINER, env=env, text=as_container)
    config, during, after = shown.splitlines()
    (request,) = msgspec.json.decode(config)["device_requests"]
    gpus = run_json(env=env)["nodes"][0]["gpus"]
    (leased,) = (gpu["index"] for gpu in gpus if gpu["uuid"] in request["device_ids"])
    assert sorted([*during.split(","), str(leased)]) == ["1", "2", "3"] == after.split(",")


def test_the_templates_of_open_ondemand(env: dict[str, str], tmp_path: Path) -> None:
    (widget, script), (form,) = code_blocks(RECIPES, "erb"), code_blocks(RECIPES, "yaml")
    with ThreadedHub(tmp_path / "hub") as hub:
        hub.join_and_report(snapshot_now("gpu03", gpu(0), gpu(1)))

        def fill(template: str) -> str:
            return re.sub(
                r"<%= %x\((.+?)\)(?:\.\w+)? %>",
                lambda found: run(
                    "sh", "-c", found[1].replace("http://gpuhub:7070", hub.url), env=env
                ).strip(),
                template,
            )

        shown = " ".join(fill(widget).split())
        assert "<strong>2 of 2 free</strong>, 0 held idle, 0 nodes silent" in shown
        filled = fill(form)
        assert 'label: "GPUs (2 free now)"' in filled
        assert filled.endswith("max: 2\n")
    for count, expected in (("2", "gpus 1,2: lab --config="), ("0", "gpus : lab --config=")):
        ready = script.replace("<%= context.gpus.to_i %>", count)
        assert run("sh", "-c", ready, env=env).strip() == expected


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    languages = ("bash", "tmux", "json", "python", "erb", "yaml")
    counts = [len(code_blocks(RECIPES, language)) for language in languages]
    assert counts == [2, 1, 1, 2, 2, 1]
    assert RECIPES.count("```") == 2 * sum(counts)
