"""`fleet-smi hub token|user|join-command`, on a real database."""

import argparse
import asyncio
import io
import os
import pty
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine

from fleet_smi.cli import hub_access, hub_state
from fleet_smi.cli.main import CommandParser
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import open_database
from fleet_smi.server.tls import ensure_self_signed

PASSWORD = "correct horse battery"
Run = Callable[..., str]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(state: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a subcommand of `fleet-smi hub` and return what it prints."""

    def hub(*arguments: str) -> str:
        parser = CommandParser(prog="fleet-smi hub", allow_abbrev=False)
        parser.add_argument("--state")
        hub_access.add_parsers(parser.add_subparsers(dest="action"))
        assert hub_access.run(parser.parse_args([*arguments, "--state", str(state)])) == 0
        return capsys.readouterr().out

    return hub


@pytest.fixture
def credentials(state: Path) -> Iterator[CredentialCache]:
    """The credentials of a hub running on the same database."""
    engine: Engine = open_database(state)
    opened = CredentialCache(engine)
    yield opened
    opened.close()
    engine.dispose()


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def tokens(run: Run, *arguments: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = msgspec.json.decode(run("token", "list", "--json", *arguments))[
        "tokens"
    ]
    return listed


def test_an_added_token_is_valid_on_the_running_hub(run: Run, credentials: CredentialCache) -> None:
    token = run("token", "add", "--role", "viewer", "--note", "bob").strip()
    credentials.refresh()
    who = credentials.identify_token(token)
    assert who is not None
    assert (who.role, who.name) == ("viewer", "bob")


def test_a_revoked_token_is_not_valid(run: Run, credentials: CredentialCache) -> None:
    token = run("token", "add", "--role", "admin").strip()
    (listed,) = tokens(run)
    run("token", "revoke", listed["id"])
    credentials.refresh()
    assert credentials.identify_token(token) is None
    assert tokens(run) == []
    assert [each["id"] for each in tokens(run, "--all")] == [listed["id"]]


def test_a_nodes_credential_is_revoked_by_the_nodes_id(
    run: Run, credentials: CredentialCache
) -> None:
    key = run("token", "add", "--role", "join").strip()
    credentials.redeem_join_token(key, "id-1", "gpu1")
    run("token", "revoke", "id-1")
    assert credentials.redeem_join_token(key, "id-1", "gpu1").secret


def test_a_secret_from_a_file_is_added_once_and_stays_revoked(
    run: Run, credentials: CredentialCache, tmp_path: Path
) -> None:
    file = tmp_path / "join-token"
    file.write_text(f"fsmi_join_{'ab' * 32}\n")
    add = ("token", "add", "--role", "join", "--expires", "3650d", "--secret-file", str(file))
    assert [run(*add), run(*add)] == ["", ""], "the secret is not printed, and added once"
    (listed,) = tokens(run)
    assert credentials.redeem_join_token(file.read_text().strip(), "id-1", "gpu1").secret
    run("token", "revoke", listed["id"])
    run(*add)
    assert [token["role"] for token in tokens(run)] == ["node"]
    file.write_text("hunter2\n")
    with pytest.raises(UsageError, match=r"must be fsmi_join_ and at least 32 random"):
        run(*add)
    with pytest.raises(UsageError, match="--secret-file /proc/nonexistent: No such file"):
        run(*add[:-1], "/proc/nonexistent")


def test_unknown_ids_are_reported_and_the_others_revoked(run: Run) -> None:
    run("token", "add", "--role", "viewer")
    (listed,) = tokens(run)
    with pytest.raises(UsageError, match="has the id nonsense: "):
        run("token", "revoke", "nonsense", listed["id"])
    assert tokens(run) == []


def test_tokens_are_listed_as_a_table(run: Run) -> None:
    run("token", "add", "--role", "viewer", "--note", "bob")
    run("token", "add", "--role", "join", "--expires", "7d", "--uses", "3")
    head, first, second = run("token", "list").splitlines()
    assert head.split() == ["ID", "ROLE", "NOTE", "PERSON", "NODE", "USED", "STATE"]
    assert first.split()[1:] == ["viewer", "bob", "never", "valid"]
    assert "join" in second
    assert second.endswith(", 3 uses left")
    assert "valid for 6 d 23 h" in second or "valid for 7 d" in second


def test_a_token_is_shown_once(run: Run) -> None:
    token = run("token", "add", "--role", "viewer").strip()
    assert token not in run("token", "list", "--all")
    assert token not in run("token", "list", "--all", "--json")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("token", "add"), "--role"),
        (("token", "add", "--role", "node"), "invalid choice"),
        (("token", "add", "--role", "viewer", "--uses", "2"), "only a join token"),
        (("token", "add", "--role", "join", "--expires", "soon"), "not a duration"),
        (("token", "revoke", "nonsense"), "has the id nonsense"),
        (("user", "remove", "nobody"), "there is no user nobody"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(
    run: Run, credentials: CredentialCache, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        run(*arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "list"),
        ("token", "revoke", "3f2a91bc"),
        ("user", "list"),
        ("user", "remove", "alice"),
        ("user", "password", "alice"),
    ],
)
def test_without_a_hub_state_nothing_is_created(
    run: Run, state: Path, arguments: list[str]
) -> None:
    with pytest.raises(UsageError, match=f"no hub state in {state}"):
        run(*arguments)
    assert not state.exists()


def test_an_added_user_can_log_in(
    run: Run, credentials: CredentialCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, PASSWORD)
    run("user", "add", "alice", "--role", "admin")
    assert asyncio.run(credentials.login("alice", PASSWORD))
    typed(monkeypatch, "another horse entirely")
    run("user", "password", "alice")
    assert asyncio.run(credentials.login("alice", PASSWORD)) is None
    assert "alice" in run("user", "list")
    listed = msgspec.json.decode(run("user", "list", "--json"))["users"]
    assert [(user["name"], user["role"]) for user in listed] == [("alice", "admin")]
    run("user", "remove", "alice")
    assert asyncio.run(credentials.login("alice", "another horse entirely")) is None


ADD_ALICE = """\
import argparse, sys
from fleet_smi.cli import hub_access, hub_state
parser = argparse.ArgumentParser()
hub_access.add_parsers(parser.add_subparsers(dest="action"))
hub_access.run(parser.parse_args(["user", "add", "alice", "--state", sys.argv[1]]))
"""


@pytest.mark.parametrize("again", [PASSWORD, "a slip of the finger"])
def test_a_typed_password_is_prompted_twice_and_not_echoed(
    run: Run, state: Path, again: str
) -> None:
    ours, theirs = pty.openpty()
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    command = [sys.executable, "-c", ADD_ALICE, str(state)]
    output = b""
    with subprocess.Popen(command, start_new_session=True, **terminal) as program:  # type: ignore[call-overload]
        os.close(theirs)
        for prompt, answer in ((b"Password:", PASSWORD), (b"Again:", again)):
            while prompt not in output:
                output += os.read(ours, 1000)
            os.write(ours, answer.encode() + b"\n")
        code = program.wait(60)
    os.close(ours)
    assert PASSWORD.encode() not in output
    assert (code == 0) == (again == PASSWORD)
    assert ("alice" in run("user", "list")) == (again == PASSWORD)


def test_the_join_command_has_a_valid_token_and_fingerprint(
    run: Run, credentials: CredentialCache, state: Path
) -> None:
    fingerprint = ensure_self_signed(state, ["gpuhub"]).fingerprint
    arguments = shlex.split(run("join-command", "--installed", "--url", "https://gpuhub:7070"))
    agent = ["fleet-smi", "agent", "--to", "https://gpuhub:7070", "--join-file", "-"]
    assert arguments[3:] == [*agent, "--fingerprint", fingerprint]
    assert credentials.redeem_join_token(arguments[1], "id-1", "gpu1").secret
    service = shlex.split(run("join-command", "--service", "--url", "https://gpuhub:7070"))
    install = ["sudo", "fleet-smi", "service", "install", "agent"]
    assert service[3:] == [*install, *agent[2:], "--fingerprint", fingerprint, "--join-first"]


def test_before_its_first_start_the_join_command_is_for_the_certificate_that_the_hub_will_have(
    run: Run, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_SMI_HUB_TLS", "self-signed")
    arguments = shlex.split(run("join-command", "--installed"))
    assert arguments[6].startswith("https://")
    assert arguments[-1] == ensure_self_signed(state, []).fingerprint


def test_the_join_command_has_no_fingerprint_without_tls(run: Run, state: Path) -> None:
    ensure_self_signed(state, ["gpuhub"])
    assert "--fingerprint" not in run("join-command", "--installed", "--url", "http://gpuhub:7070")


def test_the_join_command_names_this_machine_and_has_limits(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_SMI_HUB_LISTEN", ":7070")
    arguments = shlex.split(run("join-command", "--installed"))
    assert arguments[6] == f"http://{socket.gethostname()}:7070"
    (token,) = tokens(run)
    assert token["uses_left"] == 100
    assert token["expires_at"] - token["created_at"] == 86400


def test_of_a_hub_on_loopback_the_join_command_is_for_this_machine(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = CommandParser(prog="fleet-smi hub", allow_abbrev=False)
    hub_access.add_parsers(parser.add_subparsers(dest="action"))
    command = ["join-command", "--installed", "--state", str(state)]
    assert hub_access.run(parser.parse_args(command)) == 0
    printed = capsys.readouterr()
    assert shlex.split(printed.out)[6] == "http://127.0.0.1:7070"
    assert "run this line on this machine, the only one that reaches the hub" in printed.err
    # What to do comes last, where it is read.
    assert printed.err.splitlines()[-1] == (
        'fleet-smi: for others: set hub.listen, like ":7070", restart the hub, and run this again'
    )


def test_behind_a_proxy_the_join_command_has_the_public_url(
    run: Run, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_SMI_HUB_TRUSTED_PROXIES", "127.0.0.1")
    monkeypatch.setenv("FLEET_SMI_HUB_TLS", "self-signed")
    with pytest.raises(UsageError, match=r"set hub\.public_url to its URL there"):
        run("join-command", "--installed")
    monkeypatch.setenv("FLEET_SMI_HUB_PUBLIC_URL", "https://gpu.example.org/gpus/")
    arguments = shlex.split(run("join-command", "--installed"))
    assert arguments[6:] == ["https://gpu.example.org:443/gpus", "--join-file", "-"]


def test_access_to_a_hub_that_has_never_run_is_pointed_out(
    state: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def notices() -> str:
        args = argparse.Namespace(
            action="token", state=str(state), handler=hub_access._add_token, person=None
        )
        args.role, args.note, args.expires, args.uses = "viewer", "", None, None
        hub_access.run(args)
        return capsys.readouterr().err

    assert f"no hub has run in {state} yet" in notices()
    (state / "lock").touch()
    assert "no hub has run" not in notices()


def test_state_may_come_before_the_subcommand(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = CommandParser(prog="fleet-smi hub")
    parser.add_argument("--state")
    hub_access.add_parsers(parser.add_subparsers(dest="action"))
    args = parser.parse_args(["--state", str(state), "token", "add", "--role", "viewer"])
    assert hub_access.run(args) == 0
    assert capsys.readouterr().out.startswith("fsmi_viewer_")
    assert (state / "hub.db").exists()


@pytest.fixture
def as_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who is not root, beside a hub of root's; the state folder of the user's own hub."""
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(hub_state, "_SYSTEM_STATE", str(tmp_path / "system"))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid or 4321)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home/fleet-smi/hub"


def test_a_user_beside_the_hub_of_the_machine_is_told_to_use_sudo(as_user: Path) -> None:
    with pytest.raises(Unmet, match="run `sudo fleet-smi hub token …`, or name"):
        hub_state.require_own_hub(as_user, "token", is_named=False)
    assert not as_user.exists()


def test_a_user_may_have_a_hub_beside_that_of_the_machine(as_user: Path, tmp_path: Path) -> None:
    hub_state.require_own_hub(as_user, "token", is_named=True)
    hub_state.require_own_hub(tmp_path / "elsewhere", "token", is_named=False)
    as_user.mkdir(parents=True)
    (as_user / "lock").touch()
    hub_state.require_own_hub(as_user, "token", is_named=False)
