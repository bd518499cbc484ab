"""`fleet-smi completion` in real shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet_smi.cli.main import COMMANDS
from fleet_smi.model.fleet import STATES
from fleet_smi.model.view_options import SORT_KEYS
from tests.cli.program import run_fleet_smi
from tests.machines import require_program


def bash_completions(line: str) -> list[str]:
    """Return what bash offers after this command line."""
    script = (
        f'eval "$("{sys.executable}" -m fleet_smi completion bash)"\n'
        f"COMP_WORDS=({line} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_fleet_smi; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fleet-smi", {"free", "who", "doctor", "--json", "-p"}),
        ("fleet-smi free", {"--min-free", "--uuid"}),
        ("fleet-smi free --policy", {"memory", "context"}),
        ("fleet-smi completion", {"bash", "zsh", "fish"}),
        ("fleet-smi hub", {"token", "user", "join-command", "--listen"}),
        ("fleet-smi hub token", {"add", "list", "revoke"}),
        ("fleet-smi hub --state /tmp token", {"add", "list", "revoke"}),
        ("fleet-smi hub token add", {"--role", "--note", "--expires"}),
        ("fleet-smi hub user", {"add", "list", "remove", "password"}),
    ],
)
def test_bash_completes_commands_flags_and_values(line: str, offered: set[str]) -> None:
    assert offered <= set(bash_completions(line))


VALUES = [
    ("fleet-smi --state", set(STATES)),
    ("fleet-smi status --state", set(STATES)),
    ("fleet-smi --sort", set(SORT_KEYS)),
    ("fleet-smi free --policy", {"free", "no-process", "memory", "load", "context"}),
    ("fleet-smi free --vendor", {"nvidia", "amd", "intel"}),
    ("fleet-smi --user", set()),
    ("fleet-smi hub token add --role", {"viewer", "admin", "join"}),
    ("fleet-smi hub user add --role", {"viewer", "admin"}),
]


@pytest.mark.parametrize(("line", "offered"), VALUES)
def test_after_a_flag_bash_offers_only_its_values(line: str, offered: set[str]) -> None:
    assert set(bash_completions(line)) == offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        *((f"{line} ", offered) for line, offered in VALUES),
        ("fleet-smi completion ", {"bash", "zsh", "fish"}),
        ("fleet-smi ", set(COMMANDS)),
        ("fleet-smi --so", {"--sort"}),
        ("fsmi status --so", {"--sort"}),
        ("fleet-smi --state free --u", {"--user"}),
        ("fleet-smi free --u", {"--uuid"}),
        ("fleet-smi hub token ", {"add", "list", "revoke"}),
        ("fleet-smi hub token list --a", {"--all"}),
    ],
)
def test_fish_completes_commands_flags_and_values(
    line: str, offered: set[str], tmp_path: Path
) -> None:
    require_program("fish")
    script = run_fleet_smi("completion", "fish", env=os.environ).stdout
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{line}'"],
        env=dict(os.environ) | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == offered


def test_zsh_accepts_the_script_before_compinit(tmp_path: Path) -> None:
    require_program("zsh")
    script = run_fleet_smi("completion", "zsh", env=os.environ).stdout
    done = subprocess.run(
        ["zsh", "-f", "-c", f'{script}\nprint -r -- "$_comps[fleet-smi]"'],
        env=dict(os.environ) | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    assert "_fleet_smi" in done.stdout


def test_zsh_offers_the_subcommands_of_hub_token(tmp_path: Path) -> None:
    require_program("zsh")
    script = run_fleet_smi("completion", "zsh", env=os.environ).stdout
    # As zsh's bashcompinit calls it, which counts words from 0 as bash does.
    words = "emulate -L ksh; COMP_WORDS=(fleet-smi hub token ''); COMP_CWORD=3; _fleet_smi"
    done = subprocess.run(
        ["zsh", "-f", "-c", f'{script}\nask() {{ {words}; print -r -- "${{COMPREPLY[@]}}" }}; ask'],
        env=dict(os.environ) | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert {"add", "list", "revoke"} <= set(done.stdout.split()), done.stderr
