"""The line that is pasted on a node: a valid command, with the token on standard input."""

import shlex
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from fleet_smi.server.join_line import describe_limits, install_command, join_command


def test_the_join_command_is_valid_for_an_agent() -> None:
    line = join_command("https://gpuhub:7070", "fsmi_join_x", "sha256:ab")
    assert line == (
        "echo fsmi_join_x | "
        "fleet-smi agent --to https://gpuhub:7070 --join-file - --fingerprint sha256:ab"
    )
    assert join_command("http://gpuhub:7070", "fsmi_join_x").endswith("--join-file -")


@pytest.mark.parametrize(
    ("seconds", "uses", "text"),
    [
        (86400.0, 100, "valid for 24 hours and 100 machines"),
        (3600.0, 1, "valid for 1 hour and 1 machine"),
        (7 * 86400.0, 20, "valid for 7 d and 20 machines"),
    ],
)
def test_its_limits_are_said(seconds: float, uses: int, text: str) -> None:
    assert describe_limits(seconds, uses) == text


@pytest.mark.parametrize(
    "evil", ["http://x; touch pwned", "$(touch pwned)", "`touch pwned`", "'\n"]
)
def test_nothing_in_the_join_line_is_run_by_the_shell(tmp_path: Path, evil: str) -> None:
    line = join_command(evil, evil, evil)
    words = shlex.split(line)
    assert (words[1], words[6], words[10]) == (evil, evil, evil)
    script = f"fleet-smi() {{ printf '%s\\n' \"$3\"; }}; {line}".replace("fleet-smi", "fleet_smi")
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{evil}\n"
    assert list(tmp_path.iterdir()) == []


def run_line(line: str, folder: Path, served: bytes) -> subprocess.CompletedProcess[str]:
    """Run an install line where `curl` writes this script, and stands for the network."""
    (folder / "served").write_bytes(served)
    curl = folder / "curl"
    curl.write_text(f'#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\ncp {folder}/served "$1"\n')
    curl.chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": str(folder)}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("evil", ["http://x; touch pwned", "$(touch pwned)", "'\n"])
def test_the_install_line_runs_the_script_of_its_checksum_and_nothing_else(
    tmp_path: Path, evil: str
) -> None:
    script = b'read token; echo "$token"; printf "%s\\n" "$@"\n'
    line = install_command(evil, evil.strip(), sha256(script).hexdigest(), evil)
    done = run_line(line, tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{evil.strip()}\n{evil}\n--fingerprint\n{evil}\n--insecure-http\n"
    tampered = run_line(line, tmp_path, script + b"echo more\n")
    assert (tampered.returncode, tampered.stdout) == (1, "")
    assert "FAILED" in tampered.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"curl", "served"}


def test_a_line_for_a_hub_without_tls_says_so() -> None:
    assert "  " not in install_command("https://gpuhub:7070", "t", "0" * 64, "sha256:ab")
    plain = install_command("http://gpuhub:7070", "t", "0" * 64)
    assert plain.endswith("http://gpuhub:7070 --insecure-http")
    for url in ("http://127.0.0.1:7070", "https://gpu.example.org:443/gpus"):
        line = install_command(url, "t", "0" * 64)
        assert line.endswith(f" {url}")
        assert "-fsSk" not in line
