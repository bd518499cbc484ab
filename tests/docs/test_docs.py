"""The documentation matches the code: names, flags, numbers, links, examples, pictures."""

import argparse
import re
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docs.images import make, make_top
from docs.site.navigation import missing_pages
from fleet_smi.cli.main import COMMANDS, EXIT_CODES, build_parser
from fleet_smi.client.hub import HubClient
from fleet_smi.config import SETTINGS, Setting
from fleet_smi.hub.sources import SOURCES
from fleet_smi.model.fleet import STATES
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.view_options import SORT_KEYS
from fleet_smi.node.collectors import COLLECTORS
from fleet_smi.server.app import load_endpoints
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimProcess
from tests.builders import gpu, process
from tests.cli.program import run_fleet_smi
from tests.docs.pages import (
    PAGES,
    PROJECT,
    anchors,
    code_blocks,
    code_spans,
    headings,
    internal_links,
    page,
    section,
    table_rows,
)
from tests.machines import UserProcesses, wait_until
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated

COMMAND_PAGE = page("docs/commands.md")
SETTING_PAGE = page("docs/settings.md")
VERDICT_PAGE = page("docs/verdicts.md")
EVERYWHERE = {"-h", "--help", "--config"}  # flags of every command, documented once


def test_every_setting_is_documented_and_no_other() -> None:
    assert headings(SETTING_PAGE, 3) == [setting.name for setting in SETTINGS]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_default_and_variable_of_a_setting_are_documented(setting: Setting) -> None:
    text = section(SETTING_PAGE, setting.name)
    assert f"- Variable: `{setting.environment_variable}`" in text
    (default,) = re.findall(r"^- Default: (.+)$", text, re.MULTILINE)
    written = code_spans(default)
    if written and setting.example is None:
        assert setting.value_type.parse(written[0]) == setting.default
    else:
        assert setting.default in (None, (), {})


def test_every_collector_is_documented_and_no_other() -> None:
    assert headings(page("docs/collectors.md"), 2) == [entry.name for entry in COLLECTORS]


def test_every_command_is_documented_and_no_other() -> None:
    commands = [
        heading for heading in headings(COMMAND_PAGE, 2) if heading.startswith("fleet-smi ")
    ]
    assert commands == [f"fleet-smi {name}" for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_of_a_command_is_documented_and_no_other(name: str) -> None:
    text = section(COMMAND_PAGE, f"fleet-smi {name}")
    table = table_rows(text, "flag") if "| flag |" in text else []
    written = [word.split()[0] for row in table for word in code_spans(row[0])]
    assert sorted(written) == sorted(flags_of(build_parser(name)) - EVERYWHERE)


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return {flag for action in shown for flag in action.option_strings}


def test_every_order_and_policy_is_documented_and_no_other() -> None:
    status = dict(table_rows(section(COMMAND_PAGE, "fleet-smi status"), "flag"))
    assert code_spans(status["`--sort ORDER`"]) == list(SORT_KEYS)
    policies = table_rows(section(COMMAND_PAGE, "fleet-smi free"), "policy")
    assert [code_spans(row[0])[0] for row in policies] == list(POLICIES)


def test_every_endpoint_is_documented_and_no_other() -> None:
    written = [code_spans(row[0])[0] for row in table_rows(page("docs/http.md"), "path")]
    there = [f"{each.method} {each.path.replace(':path', '')}" for each in load_endpoints()]
    assert sorted(written) == sorted(there)


def test_every_transport_is_documented_and_no_other() -> None:
    written = {row[0] for row in table_rows(page("docs/fleet.md"), "way")}
    assert written | {"self"} == set(SOURCES)


def test_the_exit_codes_are_those_of_the_help() -> None:
    written = [code_spans(row[0])[0] for row in table_rows(COMMAND_PAGE, "code")]
    assert written == re.findall(r"^  (\d+) ", EXIT_CODES, re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "docs/verdicts.md"])
def test_all_states_are_listed_in_order(name: str) -> None:
    assert tuple(code_spans(row[0])[0] for row in table_rows(page(name), "state")) == STATES


def test_the_thresholds_are_those_of_the_code() -> None:
    thresholds = DEFAULT_THRESHOLDS
    share, size = 100 * thresholds.free_memory_fraction, thresholds.free_memory_bytes // GIB
    display_share = 100 * thresholds.display_memory_fraction
    display_size = thresholds.display_memory_bytes // GIB
    assert [row[1] for row in table_rows(VERDICT_PAGE, "what")] == [
        f"the lesser of {share:g} % and {size} GiB",
        f"under {thresholds.idle_percent:g} %",
        f"under {thresholds.noise_percent:g} %",
        f"the lesser of {display_share:g} % and {display_size} GiB",
        f"{thresholds.idle_window_seconds / 60:g} min",
        f"under {100 * thresholds.idle_power_fraction:g} % of the limit",
        f"under {thresholds.display_percent:g} %",
        f"{thresholds.settle_samples}, or as many as take {thresholds.settle_seconds:g} s",
        f"{thresholds.hole_seconds:g} s, or 3 intervals",
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_internal_link_has_a_target(path: Path) -> None:
    for target in internal_links(path):
        name, _, anchor = target.partition("#")
        place = path.parent / name if name else path
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text(encoding="utf-8")), target


def test_the_index_lists_every_page() -> None:
    assert missing_pages(PROJECT / "docs") == set(), "list them in docs/index.md, in their group"


def test_every_file_of_the_contributors_index_exists() -> None:
    index = section(page("CONTRIBUTING.md"), "Where to look")
    named = [name for name in code_spans(index) if "/" in name or name.endswith(".py")]
    assert len(named) > 40
    assert [name for name in named if not (PROJECT / "src/fleet_smi" / name).exists()] == []


def test_the_architecture_is_one_screen() -> None:
    assert len(page("ARCHITECTURE.md").splitlines()) <= 60


@pytest.mark.parametrize("script", [make, make_top])
def test_the_picture_is_up_to_date(script: Any) -> None:
    drawn = script.PICTURE.read_text(encoding="utf-8")
    name = Path(script.__file__).name
    assert drawn == script.picture(), f"run `python docs/images/{name}` and look at the picture"
    assert len(drawn.encode()) < 40_000


@pytest.fixture
def example_machine(people: UserProcesses, simulated: Simulated, tmp_path: Path) -> dict[str, str]:
    """The machine of the examples on the Python page."""
    work = SimProcess(pid=people.start(), memory=59 * GIB, sm=95)
    busy = SimGpu(memory_used=60 * GIB, util_gpu=96, power_usage=628_000, processes=[work])
    free = SimGpu(memory_used=4 * MIB, temperature=31)
    ghost = SimGpu(memory_used=71 * GIB, power_usage=74_000)
    warm = SimGpu(memory_used=4 * MIB, temperature=45)
    env = simulated(Scenario(gpus=[busy, free, ghost, warm]))
    return env | {"FLEET_SMI_NODE_LEASE_DIR": str(tmp_path / "leases")}


def test_the_doctests_of_the_python_page_pass(
    example_machine: dict[str, str], tmp_path: Path
) -> None:
    sessions = tmp_path / "python.txt"
    sessions.write_text("\n".join(code_blocks(page("docs/python.md"), "pycon")), encoding="utf-8")
    assert_runs(example_machine, "-m", "doctest", "-o", "ELLIPSIS", str(sessions))


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_the_example_programs_run(example_machine: dict[str, str], name: str) -> None:
    programs = code_blocks(page(name), "python")
    assert programs
    for program in programs:
        assert_runs(example_machine, "-c", program)


def test_the_example_programs_run_against_a_hub(tmp_path: Path) -> None:
    now_example, history_example = code_blocks(page("docs/python.md"), "py")
    with ThreadedHub(tmp_path / "hub", hub__tls="self-signed") as hub:
        hub.join_and_report(snapshot_now("gpu03", *(gpu(index) for index in range(4))))
        taken = gpu(0, uuid="GPU-of-alice", processes=(process(),))
        earlier = snapshot_now("gpu04", taken, taken_at=time.time() - 1800.0)
        hub.join_and_report(earlier, snapshot_now("gpu04", taken, sequence=1))
        printed = run_against(hub, tmp_path, now_example)
        with closing(HubClient(hub.url, fingerprint=hub.server.fingerprint)) as client:
            wait_until(lambda: bool(client.periods("1h", node="gpu04").rows))
        remembered = run_against(hub, tmp_path, history_example)
    assert "GPU-of-alice busy" in printed
    assert printed[-2:] == ["['gpu03:0', 'gpu03:1', 'gpu03:2', 'gpu03:3']", "['alice']"]
    assert remembered[0] == "1 of 1 nodes were reporting"
    assert remembered[1] == "0 busy ['alice']"
    assert "gpu_seconds" in "".join(remembered)


def run_against(hub: ThreadedHub, home: Path, program: str) -> list[str]:
    """Return what an example program prints when run against this hub."""
    for written, real in (
        ("https://gpuhub:7070", hub.url),
        ('token="…"', f"token={hub.token('viewer')!r}"),
        ('"sha256:…"', repr(hub.server.fingerprint)),
    ):
        assert program.count(written) == 1
        program = program.replace(written, real)
    return assert_runs({"HOME": str(home)}, "-c", program).splitlines()


def assert_runs(env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


UNSEEN = SimProcess(pid=4_000_000, memory=59 * GIB)
MESSAGES: dict[str, tuple[Scenario, tuple[str, ...]]] = {
    "has no GPU that fleet-smi can see.": (Scenario(init="no-driver"), ()),
    "the NVIDIA kernel module is not loaded": (Scenario(init="no-driver"), ("doctor",)),
    "do not match: reload the driver or reboot; running jobs are not affected": (
        Scenario(gpus=[SimGpu()], init="mismatch"),
        ("--json",),
    ),
    "Reboot; if it returns, check the hardware": (
        Scenario(gpus=[SimGpu(faults={"*": "lost"})]),
        ("-v",),
    ),
    "GPU requires reset. nvidia-smi --gpu-reset, once nobody uses it": (
        Scenario(gpus=[SimGpu(faults={"*": "reset-required"})]),
        ("-v",),
    ),
    "reset when idle: remapped rows wait for a reset": (
        Scenario(gpus=[SimGpu(remapped_pending=True)]),
        ("-v",),
    ),
    "2 uncorrectable memory errors since boot": (
        Scenario(gpus=[SimGpu(ecc_uncorrected_volatile=2)]),
        ("-v",),
    ),
    "3 uncorrectable memory errors: results may be wrong; reset it or reboot the node": (
        Scenario(gpus=[SimGpu(ecc_uncorrected_volatile=3, remapped_corrected=None)]),
        ("-v",),
    ),
    "no permission to open /dev/nvidia*: ask for access to the GPU devices": (
        Scenario(gpus=[SimGpu()], init="no-permission"),
        ("--json",),
    ),
    "processes not readable; memory and utilisation show no use": (
        Scenario(gpus=[SimGpu(faults={"ComputeRunningProcesses": "no-permission"})]),
        ("-v",),
    ),
    "96%   66°  628 W  ▓▓▓▓▓▓▓▓░░  60.0/79.6 GiB  1 process you may not see": (
        Scenario(
            gpus=[
                SimGpu(
                    memory_used=60 * GIB, util_gpu=96, temperature=66, power_usage=628_000,
                    processes=[UNSEEN],
                )
            ]
        ),
        (),
    ),
    "NVML does not work: Unknown Error; inside a container this means that it lost its GPU "
    "devices: restart the container": (Scenario(gpus=[SimGpu()], init="unknown"), ("--json",)),
    "71.0 GiB used, no process accounts for it": (
        Scenario(gpus=[SimGpu(memory_used=71 * GIB)]),
        ("-v",),
    ),
    "CUDA may number mixed GPUs differently: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use --uuid": (
        Scenario(gpus=[SimGpu(), SimGpu(name="NVIDIA GeForce RTX 4090")]),
        ("free",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", MESSAGES)
def test_documented_messages_are_printed(simulated: Simulated, text: str) -> None:
    scenario, arguments = MESSAGES[text]
    assert text in page("docs/troubleshooting.md")
    done = run_fleet_smi(*arguments, env=simulated(scenario) | {"COLUMNS": "100"})
    assert text in done.stdout + done.stderr


@pytest.mark.parametrize("asleep", [True, False], ids=["asleep", "hung"])
def test_the_documented_row_of_an_unreadable_gpu_is_printed(
    simulated: Simulated, tmp_path: Path, asleep: bool
) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", asleep=asleep)
    scenario = Scenario(gpus=[SimGpu()], faults={} if asleep else {"*": "never"})
    env = simulated(scenario) | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root"), "COLUMNS": "80"}
    env |= {"FLEET_SMI_NODE_DRIVER_TIMEOUT": "4s"}
    line = run_fleet_smi(env=env).stdout.splitlines()[-1]
    assert line in page("docs/troubleshooting.md").splitlines()


def test_the_documented_error_of_a_bad_setting_is_printed(
    simulated: Simulated, tmp_path: Path
) -> None:
    file = tmp_path / "fleet-smi.toml"
    file.write_text('[verdict]\nidle_windo = "5min"\n')
    done = run_fleet_smi(env=simulated(Scenario()) | {"FLEET_SMI_CONFIG": str(file)})
    assert done.returncode == 2
    for name in ("docs/troubleshooting.md", "docs/settings.md"):
        assert done.stderr in page(name)


def test_the_example_of_a_settings_file_is_accepted(simulated: Simulated, tmp_path: Path) -> None:
    (example,) = code_blocks(SETTING_PAGE, "toml")
    file = tmp_path / "fleet-smi.toml"
    file.write_text(example)
    env = simulated(Scenario(gpus=[SimGpu()])) | {"FLEET_SMI_CONFIG": str(file)}
    assert run_fleet_smi(env=env).stdout.startswith("gpu01 · ")
