"""`fleet-smi service`: the units, the install and uninstall steps, and errors."""

import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.cli.commands import service
from fleet_smi.cli.commands.service import install_steps, uninstall_steps
from fleet_smi.cli.main import build_parser
from fleet_smi.cli.service_program import require_reachable
from fleet_smi.cli.service_scope import SYSTEM, user_scope
from fleet_smi.cli.service_steps import run_steps
from fleet_smi.cli.systemd_units import ServiceUnit, render_env_file, render_unit
from fleet_smi.errors import Unmet
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import require_program, require_root

ENV = {"HOME": "/nonexistent", "PATH": os.environ["PATH"]}
ENV_FILE = "/etc/fleet-smi/agent.env"
AGENT = ServiceUnit(
    role="agent",
    command=("/opt/fleet-smi/bin/fleet-smi", "agent"),
    user="fleet-smi",
    env_file=ENV_FILE,
)
UNIT = "etc/systemd/system/fleet-smi-agent.service"
VARIABLES = "etc/fleet-smi/agent.env"


def install(root: Path, *arguments: str) -> list[str]:
    """Run the install steps below a folder; return the commands they would run."""
    ran: list[str] = []

    def execute(command: Sequence[str]) -> None:
        ran.append(" ".join(command))

    args = build_parser("service").parse_args(["install", *arguments])
    run_steps(list(install_steps(args, user_scope() if args.user else SYSTEM)), execute, root)
    return ran


def next_steps(tmp_path: Path, settings: str) -> str:
    file = tmp_path / "fleet-smi.toml"
    file.write_text(f"[hub]\n{settings}\n")
    args = build_parser("service").parse_args(["install", "hub", "--config", str(file)])
    args.join = None
    return "\n".join(service._next_steps(args, SYSTEM))


def test_a_hub_behind_a_proxy_is_not_called_closed_to_others(tmp_path: Path) -> None:
    proxied = 'trusted_proxies = ["127.0.0.1"]\n'
    assert "it listens for this machine only" in next_steps(tmp_path, "")
    own_users = next_steps(tmp_path, proxied)
    assert "this machine only" not in own_users
    assert "sudo fleet-smi hub user add NAME" in own_users
    login_at_proxy = next_steps(tmp_path, proxied + 'user_header = "X-Remote-User"')
    assert login_at_proxy.split()[:4] == ["sudo", "fleet-smi", "hub", "join-command"]


def test_installing_writes_the_unit_and_starts_it(tmp_path: Path) -> None:
    ran = install(tmp_path, "agent", "--to", "https://hub:7070", "--user-name", "nobody")
    name = "fleet-smi-agent.service"
    assert ran == [
        "systemctl daemon-reload",
        f"systemctl enable {name}",
        f"systemctl restart {name}",
    ]
    unit_file = tmp_path / UNIT
    assert stat.S_IMODE(unit_file.stat().st_mode) == 0o644
    assert "\nUser=nobody\n" in unit_file.read_text()


def test_a_missing_user_is_created(tmp_path: Path) -> None:
    (first, *_) = install(tmp_path, "hub", "--user-name", "nobody-of-that-name")
    assert first.startswith("useradd --system ")
    assert first.endswith(" nobody-of-that-name")


def test_flag_values_are_stored_in_a_file_only_root_can_read(tmp_path: Path) -> None:
    pin = "ab" * 32
    install(tmp_path, "agent", "--to", "https://hub:1", "--join", "hunter2", "--fingerprint", pin)
    assert stat.S_IMODE((tmp_path / VARIABLES).stat().st_mode) == 0o600
    assert (tmp_path / VARIABLES).read_text().splitlines() == [
        'FLEET_SMI_AGENT_TO="https://hub:1"',
        'FLEET_SMI_AGENT_JOIN="hunter2"',
        f'FLEET_SMI_AGENT_FINGERPRINT="{pin}"',
    ]
    assert "hunter2" not in (tmp_path / UNIT).read_text()


def test_a_user_installs_a_service_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    ran = install(tmp_path, "agent", "--user", "--to", "https://hub:1")
    name = "fleet-smi-agent.service"
    assert ran == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {name}",
        f"systemctl --user restart {name}",
    ]
    home = tmp_path / "home/alice/.config"
    unit = (home / "systemd/user" / name).read_text()
    assert "EnvironmentFile=-/home/alice/.config/fleet-smi/agent.env\n" in unit
    assert "\nWantedBy=default.target\n" in unit
    for line in unit.splitlines():
        assert line.partition("=")[0] not in ("User", "StateDirectory", "ProtectSystem"), line
    assert stat.S_IMODE((home / "fleet-smi/agent.env").stat().st_mode) == 0o600
    run_steps(list(uninstall_steps("agent", user_scope())), lambda _: None, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_join_token_comes_by_standard_input(tmp_path: Path) -> None:
    command = ("service", "install", "agent", "--to", "https://hub:1", "--join-file", "-")
    done = subprocess.run(
        [sys.executable, "-m", "fleet_smi", *command, "--dry-run"], input="hunter2\n",
        env=ENV, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "agent.env (mode 0600)" in done.stdout
    empty = run_fleet_smi(*command, "--dry-run", env=ENV)
    assert_error_line(empty, 2, "there is no token on standard input")


def test_installing_again_replaces_the_unit(tmp_path: Path) -> None:
    for user in ("nobody", "daemon"):
        install(tmp_path, "agent", "--to", "https://hub:7070", "--user-name", user)
    assert "\nUser=daemon\n" in (tmp_path / UNIT).read_text()
    assert [path.name for path in (tmp_path / UNIT).parent.iterdir()] == [Path(UNIT).name]


def test_uninstalling_removes_what_installing_wrote(tmp_path: Path) -> None:
    install(tmp_path, "agent", "--to", "https://hub:7070")
    ran: list[Sequence[str]] = []
    run_steps(list(uninstall_steps("agent")), ran.append, tmp_path)
    assert ran[0] == ("systemctl", "disable", "--now", "fleet-smi-agent.service")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_unit_of_a_package_is_used_where_it_suits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "packaged"
    packaged.mkdir()
    (packaged / "fleet-smi-agent.service").touch()
    scope = replace(SYSTEM, packaged_unit_folder=str(packaged))
    monkeypatch.setattr(f"{__name__}.SYSTEM", scope)
    root = tmp_path / "root"
    install(root, "agent", "--to", "https://hub:7070", "--user-name", "nobody")
    assert (root / UNIT).exists(), "the package has no unit for that user"
    ran = install(root, "agent", "--to", "https://hub:7070")
    assert not (root / UNIT).exists(), "it would override the one of the package"
    assert ran[-2:] == [
        f"systemctl {verb} fleet-smi-agent.service" for verb in ("enable", "restart")
    ]
    assert "FLEET_SMI_AGENT_TO" in (root / VARIABLES).read_text()


def test_folders_in_the_settings_are_writable(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[agent]\ndrop = "/nfs/gpu status"\nstate = "/data/agent"\n')
    done = run_fleet_smi("service", "install", "agent", "--dry-run", "--config", str(file), env=ENV)
    assert 'ReadWritePaths=/data/agent "/nfs/gpu status"\n' in done.stdout
    assert 'RequiresMountsFor=/data/agent "/nfs/gpu status"\n' in done.stdout
    assert f" agent --config {file}\n" in done.stdout
    assert "StateDirectory" not in done.stdout


def test_a_dry_run_prints_every_step_and_needs_no_root(tmp_path: Path) -> None:
    done = run_fleet_smi(
        "service", "install", "agent", "--to", "https://hub:7070", "--join", "hunter2",
        "--dry-run", env=ENV,
    )  # fmt: skip
    assert done.returncode == 0
    assert "--join shows the token to every user" in done.stderr
    program = Path(sys.executable).with_name("fleet-smi")
    for text in (f"ExecStart={program} agent\n", "[Install]\n", "systemctl daemon-reload\n"):
        assert text in done.stdout
    assert "hunter2" not in done.stdout
    assert not Path("/etc/systemd/system/fleet-smi-agent.service").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("agent",), "the agent has no destination: give --to URL"),
        (("agent", "--to", "hub"), "--to: to = 'hub': is not a URL"),
        (("hub", "--to", "http://hub"), "are for an agent"),
        (("hub", "--user-name", "root"), "give a valid user name other than root"),
        (("hub", "--user-name", "a b"), "give a valid user name"),
        (("hub", "--user-name", "x\n[Service]"), "give a valid user name"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    assert_error_line(
        run_fleet_smi("service", "install", *arguments, "--dry-run", env=ENV), 2, message
    )


def test_without_systemd_it_says_what_to_do() -> None:
    require_root()
    if Path("/run/systemd/system").exists():
        pytest.skip("systemd runs this machine: this would install it")
    done = run_fleet_smi("service", "install", "hub", env=ENV)
    assert_error_line(done, 1, "systemd does not run here: ")


def test_without_root_it_says_to_use_sudo() -> None:
    require_root()
    program = (
        "import os, sys\nfrom fleet_smi.cli.main import main\n"
        "import fleet_smi.cli.commands.service, fleet_smi.cli.systemd_units\n"
        "os.setuid(65534)\nsys.exit(main(['service', 'uninstall', 'hub']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=ENV, capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert_error_line(done, 1, "run it with sudo")


def test_a_program_in_a_private_folder_is_refused(tmp_path: Path) -> None:
    require_reachable(["/usr/bin/env"])
    closed = tmp_path / "home"
    closed.mkdir(0o700)
    with pytest.raises(Unmet, match=f"{closed} is closed to other users"):
        require_reachable([f"{closed}/fleet-smi"])


def test_the_hardening_does_not_hide_devices_or_processes() -> None:
    settings = [line.partition("=")[0] for line in render_unit(AGENT).splitlines()]
    hiding = {"PrivateDevices", "ProtectClock", "ProtectProc", "ProcSubset", "PrivateUsers"}
    assert not hiding & set(settings)
    assert {"NoNewPrivileges", "ProtectSystem", "PrivateTmp", "User"} <= set(settings)


@pytest.mark.parametrize("role", ["agent", "hub"])
def test_every_service_has_a_limit_of_memory(role: str) -> None:
    service = ServiceUnit(
        role=role, command=("/usr/bin/fleet-smi", role), user="x", env_file=ENV_FILE
    )
    unit = render_unit(service)
    assert re.search(r"^MemoryMax=\d+[MG]$", unit, re.MULTILINE)


@pytest.mark.parametrize("user", ["daemon", None])
@pytest.mark.parametrize("role", ["agent", "hub"])
def test_systemd_analyze_accepts_the_unit(tmp_path: Path, role: str, user: str | None) -> None:
    require_program("systemd-analyze")
    service = ServiceUnit(
        role=role,
        command=(sys.executable, "-m", "fleet_smi", role, "--config", "/etc/a b/100%$HOME.toml"),
        user=user,
        env_file="/etc/fleet smi/agent.env",
        state_dir=f"/var/lib/fleet-smi/{role}",
        writable_paths=("/nfs/gpu status", "/data/50%"),
    )
    file = tmp_path / f"fleet-smi-{role}.service"
    file.write_text(render_unit(service))
    scope = () if user else ("--user",)
    runtime = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", str(file)], env=runtime,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    about_us = [line for line in done.stderr.splitlines() if file.name in line]
    # Two settings of systemd 254, which an older one leaves out.
    unknown = [line for line in about_us if "Restart" not in line]
    assert (done.returncode, unknown) == (0, [])


argument = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1)


@given(st.lists(argument))
def test_command_arguments_survive_quoting(arguments: list[str]) -> None:
    text = render_unit(replace(AGENT, command=("/x", *arguments)))
    (line,) = (line for line in text.split("\n") if line.startswith("ExecStart="))
    # A unit is quoted as for a shell, with % and $ doubled.
    read = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line[10:])]
    assert read == ["/x", *arguments]


def test_variables_are_quoted() -> None:
    assert render_env_file({"A": 'x "\\ y'}) == 'A="x \\"\\\\ y"\n'
