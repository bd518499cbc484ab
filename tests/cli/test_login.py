"""`fleet-smi login` and `logout`, and the way that commands act as a person, on a real hub."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.acting import acting_client
from fleet_smi.client.login_file import LoginFile
from fleet_smi.errors import Refused, UsageError
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import require_root
from tests.ports import free_port
from tests.server.threaded_hub import ThreadedHub

PASSWORD = "correct horse battery"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "hub") as running:
        running.server.credentials.users.add("ada", PASSWORD, "admin")
        running.server.credentials.refresh()
        yield running


@pytest.fixture
def env(tmp_path: Path, hub: ThreadedHub) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "FLEET_SMI_CLIENT_HUB": hub.url,
        "FLEET_SMI_HUB_STATE": str(tmp_path / "no-hub"),
        "FLEET_SMI_AGENT_SOCKET": "off",
    }


def run(*arguments: str, env: dict[str, str], typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleet_smi", *arguments],
        env=env,
        input=typed,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def login_file(tmp_path: Path) -> Path:
    return tmp_path / "state/fleet-smi/login.json"


def person(hub: ThreadedHub, tmp_path: Path) -> str | None:
    """Whom the hub takes the holder of the saved token for."""
    login = LoginFile(str(login_file(tmp_path))).get(hub.url)
    assert login is not None
    found = hub.server.credentials.identify_token(login.token)
    return None if found is None else found.person


def test_a_password_on_stdin_logs_in_and_out(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path
) -> None:
    done = run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"logged in at {hub.url} as ada (admin)\n"
    assert login_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in login_file(tmp_path).read_text()
    assert person(hub, tmp_path) == "ada"
    # Commands use it from now on: a viewer could not do this.
    assert "ROLE" not in run("nodes", env=env).stderr
    login = LoginFile(str(login_file(tmp_path))).get(hub.url)
    assert login is not None
    assert run("logout", env=env).returncode == 0
    assert hub.server.credentials.identify_token(login.token) is None
    assert_error_line(run("logout", env=env), 2, "you are not logged in")


def test_a_terminal_is_asked_for_name_and_password(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path
) -> None:
    main, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "fleet_smi", "login"],
        env=env,
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    ) as program:
        os.close(end)
        shown = ""
        for prompt, answer in (("Name (", "ada\n"), ("Password", f"{PASSWORD}\n")):
            while prompt not in shown:
                shown += os.read(main, 4096).decode()
            os.write(main, answer.encode())
        assert program.wait(60) == 0
    os.close(main)
    assert PASSWORD not in shown
    assert person(hub, tmp_path) == "ada"


@pytest.mark.parametrize("way", ["file", "dash", "stdin"])
def test_a_personal_token_is_taken_from_a_file_or_stdin(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path, way: str
) -> None:
    token = hub.token("viewer", person="carol")
    (tmp_path / "token").write_text(f"{token}\n")
    flags = {"file": ("--token-file", str(tmp_path / "token")), "dash": ("--token-file", "-")}
    done = run("login", *flags.get(way, ()), env=env, typed="" if way == "file" else f"{token}\n")
    assert done.stdout == f"logged in at {hub.url} as carol (viewer)\n", done.stderr
    assert person(hub, tmp_path) == "carol"


def test_what_is_wrong_is_said_in_one_line_and_nothing_is_saved(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path
) -> None:
    wrong = run("login", "--name", "ada", env=env, typed="guess\n")
    assert_error_line(wrong, 3, "wrong name or password")
    assert_error_line(run("login", env=env), 2, "no password given")
    shared = run("login", env=env, typed=hub.token("viewer") + "\n")
    assert_error_line(shared, 3, "--person NAME")
    unknown = run("login", env=env, typed="fsmi_personal_x\n")
    assert_error_line(unknown, 3, "unknown token")
    missing = run("login", "--token-file", str(tmp_path / "no"), env=env)
    assert_error_line(missing, 2, "No such file")
    away = run("login", "--hub", f"http://127.0.0.1:{free_port()}", env=env, typed="x\n")
    assert_error_line(away, 3, "connection refused")
    nowhere = {name: value for name, value in env.items() if name != "FLEET_SMI_CLIENT_HUB"}
    assert_error_line(run("login", env=nowhere), 2, "no hub given")
    assert not login_file(tmp_path).exists()


def test_a_login_file_that_others_can_read_is_not_used(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path
) -> None:
    assert run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n").returncode == 0
    login_file(tmp_path).chmod(0o644)
    assert_error_line(run("login", env=env, typed="x\n"), 2, "chmod 600")
    login_file(tmp_path).chmod(0o600)
    login_file(tmp_path).write_text("nonsense")
    assert_error_line(run("nodes", env=env), 2, "is damaged")


def test_what_another_user_has_put_in_its_place_is_no_login(
    hub: ThreadedHub, env: dict[str, str], tmp_path: Path
) -> None:
    require_root("make files of another user")
    assert run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n").returncode == 0
    # Root could read it, and would act in the name of whoever has written it.
    os.chown(login_file(tmp_path), 12345, 12345)
    assert_error_line(run("logout", env=env), 2, "you are not logged in")
    again = run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n")
    assert_error_line(again, 1, "of another user")


def act_as(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], hub: str | None = None) -> str:
    """The person that a command of this environment acts as."""
    for name in [name for name in os.environ if name.startswith(("FLEET_SMI_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with closing(acting_client(hub)) as client:
        found = client.session().person
    assert found is not None
    return found


def test_commands_act_by_the_login_else_by_a_personal_token_else_they_say_what_to_do(
    hub: ThreadedHub, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match="run `fleet-smi login`"):
        act_as(monkeypatch, env)
    run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n")
    assert act_as(monkeypatch, env) == "ada"
    # The only login there is stands for a hub that is not set.
    assert act_as(monkeypatch, {k: v for k, v in env.items() if k != "FLEET_SMI_CLIENT_HUB"})
    named = {**env, "FLEET_SMI_CLIENT_TOKEN": hub.token("viewer", person="carol")}
    assert act_as(monkeypatch, named) == "carol"
    with pytest.raises(Refused):
        act_as(monkeypatch, env, hub="http://127.0.0.1:1")


def test_the_user_of_a_hub_needs_no_login_there(
    hub: ThreadedHub, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {**env, "FLEET_SMI_HUB_STATE": str(hub.folder)}
    del own["FLEET_SMI_CLIENT_HUB"]
    assert act_as(monkeypatch, own) == "root" if os.geteuid() == 0 else True


def test_a_revoked_login_says_so(
    hub: ThreadedHub, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("login", "--name", "ada", env=env, typed=f"{PASSWORD}\n")
    hub.server.credentials.change_users(lambda store: store.remove("ada"))
    with pytest.raises(Refused, match="expired, revoked or mistyped"):
        act_as(monkeypatch, env)
    assert "was not revoked" in run_fleet_smi("logout", env=env).stderr
    with pytest.raises((Refused, UsageError), match="fleet-smi login"):
        act_as(monkeypatch, env)
