"""Login sessions: how long they last, and what ends them."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select, text

from fleet_smi.errors import StateError
from fleet_smi.hub import sessions
from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.hub.database import (
    ended_sessions,
    open_database,
    read_transaction,
    write_transaction,
)
from fleet_smi.hub.sessions import SESSION_LIFETIME_SECONDS
from tests.hub.accounts import PASSWORD, ManualClock


def login(credentials: CredentialCache, name: str, password: str) -> str | None:
    return asyncio.run(credentials.login(name, password))


def test_the_right_password_opens_a_session(credentials: CredentialCache) -> None:
    credentials.users.add("alice", PASSWORD, "admin")
    session = login(credentials, "alice", PASSWORD)
    assert session is not None
    assert credentials.identify_session(session) == Identity(
        role="admin", name="alice", auth_method="session", person="alice"
    )
    assert login(credentials, "alice", PASSWORD + "!") is None
    assert login(credentials, "bob", PASSWORD) is None


def test_a_session_ends_after_two_weeks(credentials: CredentialCache, clock: ManualClock) -> None:
    credentials.users.add("alice", PASSWORD)
    session = login(credentials, "alice", PASSWORD) or ""
    clock.now += SESSION_LIFETIME_SECONDS - 1
    assert credentials.identify_session(session) is not None
    clock.now += 1
    assert credentials.identify_session(session) is None


def test_a_session_ends_when_its_password_changes_or_its_user_is_removed(
    credentials: CredentialCache,
) -> None:
    credentials.users.add("alice", PASSWORD)
    session = login(credentials, "alice", PASSWORD) or ""
    credentials.users.set_password("alice", "another horse entirely")
    credentials.refresh()
    assert credentials.identify_session(session) is None
    session = login(credentials, "alice", "another horse entirely") or ""
    assert credentials.identify_session(session) is not None
    credentials.users.remove("alice")
    credentials.refresh()
    assert credentials.identify_session(session) is None
    credentials.users.add("alice", PASSWORD)
    credentials.refresh()
    assert credentials.identify_session(session) is None


def test_a_session_outlives_a_restart_of_the_hub(
    credentials: CredentialCache, engine: Engine, clock: ManualClock
) -> None:
    credentials.users.add("alice", PASSWORD)
    session = login(credentials, "alice", PASSWORD) or ""
    restarted = CredentialCache(engine, clock=clock)
    assert restarted.identify_session(session) is not None
    restarted.close()


def logout(credentials: CredentialCache, session: str) -> None:
    asyncio.run(credentials.logout(session))


def written_down(engine: Engine) -> int:
    with read_transaction(engine) as connection:
        return connection.scalar(select(func.count()).select_from(ended_sessions)) or 0


def test_logging_out_ends_that_session_only(credentials: CredentialCache, engine: Engine) -> None:
    credentials.users.add("alice", PASSWORD)
    left, other = (login(credentials, "alice", PASSWORD) or "" for _ in range(2))
    logout(credentials, left)
    assert credentials.identify_session(left) is None
    assert credentials.identify_session(other) is not None
    for ended in (left, "nonsense", ""):
        logout(credentials, ended)
    assert written_down(engine) == 1


def test_a_restart_of_the_hub_revives_no_session(
    credentials: CredentialCache, engine: Engine, clock: ManualClock
) -> None:
    credentials.users.add("alice", PASSWORD)
    session = login(credentials, "alice", PASSWORD) or ""
    logout(credentials, session)
    restarted = CredentialCache(engine, clock=clock)
    assert restarted.identify_session(session) is None
    restarted.close()


def test_a_revoked_session_is_deleted_once_it_would_have_expired(
    credentials: CredentialCache, engine: Engine, clock: ManualClock
) -> None:
    credentials.users.add("alice", PASSWORD)
    logout(credentials, login(credentials, "alice", PASSWORD) or "")
    clock.now += SESSION_LIFETIME_SECONDS
    logout(credentials, login(credentials, "alice", PASSWORD) or "")
    assert written_down(engine) == 1


def test_too_many_logouts_log_the_user_out_everywhere(
    credentials: CredentialCache, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MAX_REVOKED_PER_USER", 2)
    for name in ("alice", "bob"):
        credentials.users.add(name, PASSWORD)
    stored, bobs = (login(credentials, name, PASSWORD) or "" for name in ("alice", "bob"))
    ended = [login(credentials, "alice", PASSWORD) or "" for _ in range(3)]
    for session in ended:
        assert credentials.identify_session(stored) is not None
        logout(credentials, session)
    assert [credentials.identify_session(each) for each in (stored, *ended)] == [None] * 4
    assert credentials.identify_session(bobs) is not None
    assert written_down(engine) == 0


def test_a_session_of_another_hub_is_invalid(credentials: CredentialCache, tmp_path: Path) -> None:
    engine = open_database(tmp_path / "other")
    other = CredentialCache(engine)
    for each in (credentials, other):
        each.users.add("alice", PASSWORD)
    session = login(other, "alice", PASSWORD) or ""
    assert other.identify_session(session) is not None
    assert credentials.identify_session(session) is None
    other.close()
    engine.dispose()


def test_a_tampered_session_is_invalid(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    engine = open_database(tmp_path_factory.mktemp("tampered") / "state")
    credentials = CredentialCache(engine)
    credentials.users.add("alice", PASSWORD)
    session = login(credentials, "alice", PASSWORD) or ""

    @given(st.text(max_size=60), st.integers(0, len(session) - 1))
    def nothing_else_is_believed(junk: str, at: int) -> None:
        changed = session[:at] + junk + session[at + 1 :]
        found = credentials.identify_session(changed)
        # What is signed must be as it was; of its signature, some letters decode to nothing.
        if changed.rpartition(".")[0] != session.rpartition(".")[0]:
            assert found is None
        else:
            assert found in (None, credentials.identify_session(session))

    nothing_else_is_believed()
    credentials.close()
    engine.dispose()


def test_sessions_need_a_secret_to_sign_with(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        connection.execute(text("DELETE FROM facts WHERE name = 'session_secret'"))
    with pytest.raises(StateError, match="no secret to sign sessions with"):
        CredentialCache(engine)


def test_logging_in_does_not_block_the_event_loop(credentials: CredentialCache) -> None:
    credentials.users.add("alice", PASSWORD)

    async def scenario() -> int:
        turns = 0
        task = asyncio.ensure_future(credentials.login("alice", PASSWORD))
        while not task.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert await task is not None
        return turns

    assert asyncio.run(scenario()) > 10
