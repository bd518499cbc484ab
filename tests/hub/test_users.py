"""Users with passwords: what is accepted, and what an unknown name reveals."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from fleet_smi.errors import UsageError
from fleet_smi.hub.database import open_database, read_transaction
from fleet_smi.hub.users import UserStore

PASSWORD = "correct horse battery"


@pytest.fixture
def users(tmp_path: Path) -> Iterator[UserStore]:
    engine = open_database(tmp_path / "state")
    yield UserStore(engine, lambda: 5.0)
    engine.dispose()


def test_users_are_listed_by_name(users: UserStore) -> None:
    users.add("bob", PASSWORD)
    users.add("alice", PASSWORD, "admin")
    assert [(user.name, user.role) for user in users.list_all()] == [
        ("alice", "admin"),
        ("bob", "viewer"),
    ]


def test_passwords_are_stored_as_argon2_hashes(users: UserStore) -> None:
    users.add("alice", PASSWORD)
    with read_transaction(users._engine) as connection:
        stored = connection.scalar(text("SELECT password_hash FROM users"))
    assert str(stored).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_a_password_can_be_changed(users: UserStore) -> None:
    users.add("alice", PASSWORD)
    users.set_password("alice", "another horse entirely")
    assert not users.verify_password("alice", PASSWORD)
    assert users.verify_password("alice", "another horse entirely")


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
def test_a_password_too_short_or_too_long_is_refused(users: UserStore, password: str) -> None:
    with pytest.raises(UsageError, match="10 to 1024"):
        users.add("alice", password)
    assert not users.verify_password("alice", password)


def test_a_password_is_never_truncated(users: UserStore) -> None:
    users.add("alice", "x" * 1024)
    assert users.verify_password("alice", "x" * 1024)
    assert not users.verify_password("alice", "x" * 1025)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 65, "\x1b[31mroot"])
def test_a_name_with_control_characters_is_refused(users: UserStore, name: str) -> None:
    with pytest.raises(UsageError, match="1 to 64"):
        users.add(name, PASSWORD)


def test_adding_twice_or_changing_an_unknown_user_is_an_error(users: UserStore) -> None:
    users.add("alice", PASSWORD)
    with pytest.raises(UsageError, match="`fleet-smi hub user password alice`"):
        users.add("alice", PASSWORD)
    with pytest.raises(UsageError, match="there is no user bob"):
        users.remove("bob")
    with pytest.raises(UsageError, match="there is no user bob"):
        users.set_password("bob", PASSWORD)


def test_an_unknown_name_takes_as_long_as_a_wrong_password(users: UserStore) -> None:
    users.add("alice", PASSWORD)

    def processor_seconds(name: str) -> float:
        began = time.thread_time()
        assert not users.verify_password(name, "wrong horse battery")
        return time.thread_time() - began

    processor_seconds("nobody")
    wrong = min(processor_seconds("alice") for _ in range(3))
    unknown = min(processor_seconds("nobody") for _ in range(3))
    assert 0.5 < unknown / wrong < 2
