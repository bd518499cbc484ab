"""The credential cache: tokens, joining nodes, and changes by other processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Engine, text

from fleet_smi.client.responses import decode_error
from fleet_smi.errors import Refused, UsageError
from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.hub.database import DATABASE_FILE, write_transaction
from fleet_smi.hub.tokens import TokenStore
from fleet_smi.paths import user_name
from tests.hub.accounts import DAY, PASSWORD, ManualClock, join_node


def test_a_token_identifies_its_holder(credentials: CredentialCache) -> None:
    issued = credentials.tokens.add("viewer", "bob's laptop")
    credentials.refresh()
    assert issued.secret.startswith("fsmi_viewer_")
    assert credentials.identify_token(issued.secret) == Identity(
        role="viewer", name="bob's laptop", token_id=issued.id
    )


def test_tokens_are_stored_only_as_their_hash(credentials: CredentialCache, tmp_path: Path) -> None:
    secrets = [credentials.tokens.add("admin").secret, join_node(credentials)]
    credentials.refresh()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob(f"{DATABASE_FILE}*"))
    assert not any(secret.encode() in stored for secret in secrets)
    assert b"fsmi_local_x" not in stored


@pytest.mark.parametrize("token", ["", "fsmi_viewer_", "x" * 100_000, "\ud800", "é"])
def test_an_unknown_token_is_not_accepted(credentials: CredentialCache, token: str) -> None:
    assert credentials.identify_token(token) is None


def test_a_join_token_is_no_credential(credentials: CredentialCache) -> None:
    key = credentials.tokens.add("join").secret
    credentials.refresh()
    assert credentials.identify_token(key) is None
    assert not credentials.has_viewer_credentials


def test_an_expired_token_is_invalid(credentials: CredentialCache, clock: ManualClock) -> None:
    token = credentials.tokens.add("viewer", lifetime_seconds=DAY).secret
    credentials.refresh()
    clock.now += DAY - 1
    assert credentials.identify_token(token) is not None
    clock.now += 1
    assert credentials.identify_token(token) is None


def test_a_token_revoked_by_the_hub_is_invalid_immediately(credentials: CredentialCache) -> None:
    issued = credentials.tokens.add("viewer")
    credentials.refresh()
    assert credentials.revoke_token(issued.id)
    assert credentials.identify_token(issued.secret) is None
    assert not credentials.revoke_token(issued.id)


def test_what_another_process_changes_is_seen_at_the_next_refresh(
    credentials: CredentialCache, tmp_path: Path
) -> None:
    def elsewhere(code: str) -> str:
        program = (
            "import sys; from pathlib import Path\n"
            "from fleet_smi.hub.database import open_database\n"
            "from fleet_smi.hub.tokens import TokenStore\n"
            f"tokens = TokenStore(open_database(Path({str(tmp_path / 'state')!r})))\n{code}"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    token_id, token = elsewhere("t = tokens.add('viewer'); print(t.id, t.secret)").split()
    assert credentials.identify_token(token) is None
    credentials.refresh()
    assert credentials.identify_token(token) is not None
    elsewhere(f"tokens.revoke({token_id!r})")
    credentials.refresh()
    assert credentials.identify_token(token) is None


def test_cached_credentials_stay_valid_while_the_database_cannot_be_read(
    credentials: CredentialCache, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    token = credentials.tokens.add("viewer").secret
    credentials.refresh()
    with write_transaction(engine) as connection:
        connection.execute(text("ALTER TABLE facts RENAME TO lost"))
    credentials.refresh()
    credentials.refresh()
    assert credentials.consecutive_failures == 2
    assert len(caplog.records) == 1
    assert credentials.identify_token(token) is not None
    with write_transaction(engine) as connection:
        connection.execute(text("ALTER TABLE lost RENAME TO facts"))
    credentials.refresh()
    assert credentials.consecutive_failures == 0


def test_the_local_admin_token_is_not_in_the_database(credentials: CredentialCache) -> None:
    own = Identity(role="admin", name="this machine", person=user_name(os.geteuid()))
    assert credentials.identify_token("fsmi_local_x") == own
    assert credentials.tokens.list_all() == []
    assert not credentials.has_viewer_credentials


def test_viewer_credentials_are_a_viewer_an_admin_or_a_user(
    credentials: CredentialCache,
) -> None:
    def seen() -> bool:
        credentials.refresh()
        return credentials.has_viewer_credentials

    join_node(credentials)
    assert not seen()
    for role in ("viewer", "admin"):
        issued = credentials.tokens.add(role)
        assert seen()
        credentials.revoke_token(issued.id)
        assert not seen()
    credentials.users.add("alice", PASSWORD)
    assert seen()


def test_a_node_that_joins_gets_its_own_credential(credentials: CredentialCache) -> None:
    key = credentials.tokens.add("join").secret
    one = credentials.redeem_join_token(key, "id-1", "gpu1")
    two = credentials.redeem_join_token(key, "id-2", "gpu1")
    assert one.secret.startswith("fsmi_node_")
    for node_id, issued in (("id-1", one), ("id-2", two)):
        who = Identity(role="node", name="gpu1", node_id=node_id, token_id=issued.id)
        assert credentials.identify_token(issued.secret) == who
        credentials.refresh()
        assert credentials.identify_token(issued.secret) == who


def test_a_join_token_cannot_take_over_a_node_that_has_joined(credentials: CredentialCache) -> None:
    token = join_node(credentials, "id-1")
    key = credentials.tokens.add("join").secret
    with pytest.raises(Refused, match=r"gpu1: .* `fleet-smi hub token revoke id-1`"):
        credentials.redeem_join_token(key, "id-1", "gpu1")
    credentials.refresh()
    assert credentials.identify_token(token) is not None


def test_a_node_may_join_again_once_its_credential_is_revoked(credentials: CredentialCache) -> None:
    old = join_node(credentials, "id-1")
    assert credentials.has_node_credential("id-1")
    assert credentials.revoke_token("id-1")
    assert not credentials.has_node_credential("id-1")
    assert credentials.identify_token(old) is None
    new = join_node(credentials, "id-1")
    assert credentials.identify_token(new) is not None


def test_a_node_that_missed_the_response_joins_again_with_what_it_proposed(
    credentials: CredentialCache,
) -> None:
    key = credentials.tokens.add("join", max_uses=1).secret
    proposal = f"fsmi_node_{'a' * 64}"
    first = credentials.redeem_join_token(key, "id-1", "gpu1", proposal)
    # The only use of the join token is spent, and yet the node is not locked out.
    assert credentials.redeem_join_token(key, "id-1", "gpu1", proposal) == first
    assert first.secret == proposal
    assert credentials.identify_token(proposal) is not None


@pytest.mark.parametrize("proposal", [None, f"fsmi_node_{'b' * 64}"])
def test_a_join_token_cannot_replace_a_credential_that_was_never_used(
    credentials: CredentialCache, proposal: str | None
) -> None:
    key = credentials.tokens.add("join").secret
    token = credentials.redeem_join_token(key, "id-1", "gpu1", f"fsmi_node_{'a' * 64}").secret
    with pytest.raises(Refused, match="already has a credential"):
        credentials.redeem_join_token(key, "id-1", "gpu1", proposal)
    credentials.refresh()
    assert credentials.identify_token(token) is not None


def test_a_node_gets_every_remedy_of_the_refusal_to_join(credentials: CredentialCache) -> None:
    key, node_id = credentials.tokens.add("join").secret, "a" * 32
    credentials.redeem_join_token(key, node_id, "gpu1")
    with pytest.raises(Refused) as refused:
        credentials.redeem_join_token(key, node_id, "gpu1")
    message = refused.value.message
    sent = msgspec.json.encode({"error": {"code": "refused", "message": message}})
    received = decode_error(sent)
    assert received is not None
    assert received.message == message
    assert f"token revoke {node_id}" in message


def test_a_join_token_has_limits_by_default(
    credentials: CredentialCache, clock: ManualClock
) -> None:
    issued = credentials.issue_token("join")
    (token,) = credentials.tokens.list_all()
    assert (token.expires_at, token.uses_left) == (clock.now + DAY, 100)
    assert credentials.redeem_join_token(issued.secret, "id-1", "gpu1").secret
    left = {token.role: token.uses_left for token in credentials.tokens.list_all()}
    assert left == {"join": 99, "node": None}


def test_a_used_credential_cannot_be_replaced_after_a_crash(
    credentials: CredentialCache, engine: Engine, clock: ManualClock
) -> None:
    join_node(credentials, "id-1")
    credentials.refresh()  # as the hub does every second; it then dies without closing
    restarted = CredentialCache(engine, clock=clock)
    key = restarted.tokens.add("join").secret
    with pytest.raises(Refused, match="already has a credential"):
        restarted.redeem_join_token(key, "id-1", "gpu1")
    restarted.close()


def test_of_concurrent_joins_for_one_node_only_one_succeeds(
    credentials: CredentialCache,
) -> None:
    key = credentials.tokens.add("join").secret
    issued: list[str] = []

    def join() -> None:
        try:
            token = credentials.redeem_join_token(key, "id-1", "gpu1").secret
        except Refused:
            return
        issued.append(token)
        credentials.identify_token(token)

    threads = [threading.Thread(target=join) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    credentials.refresh()
    assert len([token for token in issued if credentials.identify_token(token)]) == 1


@pytest.mark.parametrize(
    "spoil, why",
    [
        (lambda tokens, issued, clock: tokens.revoke(issued.id), "was revoked"),
        (lambda tokens, issued, clock: setattr(clock, "now", clock.now + DAY), "has expired"),
        (
            lambda tokens, issued, clock: tokens.redeem_join_token(issued.secret, "id-9", "gpu9"),
            "is used up",
        ),
    ],
)
def test_an_invalid_join_token_says_why(
    credentials: CredentialCache, clock: ManualClock, spoil: object, why: str
) -> None:
    issued = credentials.tokens.add("join", lifetime_seconds=DAY, max_uses=1)
    spoil(credentials.tokens, issued, clock)  # type: ignore[operator]
    with pytest.raises(Refused, match=f"the join token {why}"):
        credentials.redeem_join_token(issued.secret, "id-1", "gpu1")


def test_a_refused_join_does_not_use_up_the_token(credentials: CredentialCache) -> None:
    join_node(credentials, "id-1")
    key = credentials.tokens.add("join", max_uses=1).secret
    with pytest.raises(Refused):
        credentials.redeem_join_token(key, "id-1", "gpu1")
    assert credentials.redeem_join_token(key, "id-2", "gpu2").secret


def test_no_other_token_lets_a_node_join(credentials: CredentialCache) -> None:
    for secret in (
        "",
        "fsmi_join_x",
        credentials.tokens.add("admin").secret,
        join_node(credentials),
    ):
        with pytest.raises(Refused, match="is unknown"):
            credentials.redeem_join_token(secret, "id-7", "gpu7")


def test_a_leaked_join_token_cannot_fill_the_hub(engine: Engine) -> None:
    credentials = CredentialCache(engine, max_nodes=3)
    key = credentials.tokens.add("join").secret
    for number in range(3):
        credentials.redeem_join_token(key, f"id-{number}", "gpu")
    with pytest.raises(Refused, match="limit of 3 nodes"):
        credentials.redeem_join_token(key, "id-3", "gpu")
    credentials.close()


@pytest.mark.parametrize("node_id", ["", "a\nb", "x" * 129, " id", "\x1b[31m"])
def test_a_node_id_with_control_characters_is_refused(
    credentials: CredentialCache, node_id: str
) -> None:
    key = credentials.tokens.add("join").secret
    with pytest.raises(Refused, match="invalid node id"):
        credentials.redeem_join_token(key, node_id, "gpu1")


def test_only_a_join_token_has_a_number_of_uses(credentials: CredentialCache) -> None:
    with pytest.raises(UsageError):
        credentials.tokens.add("viewer", max_uses=3)
    with pytest.raises(UsageError):
        credentials.tokens.add("join", max_uses=0)


def test_the_last_use_of_a_token_is_saved_periodically(
    credentials: CredentialCache, clock: ManualClock
) -> None:
    issued = credentials.tokens.add("viewer")
    credentials.refresh()

    def used_at() -> float | None:
        return next(
            token.used_at for token in credentials.tokens.list_all() if token.id == issued.id
        )

    credentials.refresh()
    assert used_at() is None
    first = clock.now
    credentials.identify_token(issued.secret)
    credentials.refresh()
    assert used_at() == first
    clock.now += 60
    credentials.identify_token(issued.secret)
    credentials.refresh()
    assert used_at() == first
    clock.now += 600
    credentials.refresh()
    assert used_at() == clock.now


def test_hostile_names_are_stored_as_values(engine: Engine, clock: ManualClock) -> None:
    tokens = TokenStore(engine, clock)
    evil = "x'); DROP TABLE tokens; --"
    tokens.add("viewer", evil)
    assert not tokens.revoke(evil)
    assert not tokens.revoke("' OR '1'='1")
    (kept,) = tokens.list_all()
    assert (kept.note, kept.revoked_at) == (evil, None)


def test_listings_of_tokens_and_users_contain_no_secret(credentials: CredentialCache) -> None:
    issued = credentials.tokens.add("viewer")
    credentials.users.add("alice", PASSWORD)
    sent = repr(credentials.tokens.list_all()) + repr(credentials.users.list_all())
    assert issued.secret not in sent
    assert "digest" not in sent
    assert "argon2" not in sent
