"""Authentication and authorization: tokens, roles, loopback and anonymous clients."""

import os
import pwd

import pytest

from fleet_smi.hub.credentials import Identity
from fleet_smi.server.auth import (
    ANONYMOUS,
    Action,
    acting_name,
    bind_warning,
    may_edit,
)
from fleet_smi.server.http_error import HttpError
from tests.server.credentials_of_a_hub import (
    FAR,
    HERE,
    PROXY,
    House,
    code_of,
    head,
    sender,
    with_token,
)


def test_a_token_identifies_the_sender_for_any_method(house: House) -> None:
    access = house.access()
    for method in ("GET", "POST", "DELETE"):
        assert sender(access, with_token(house.viewer), method=method).name == "bob"
    assert sender(access, head(authorization=f"bearer  {house.admin} ")).role == "admin"
    assert sender(access, with_token("fsmi_local_x"), HERE).role == "admin"


@pytest.mark.parametrize("value", ["Bearer nonsense", "Bearer", "fsmi_viewer_without_scheme", ""])
def test_a_wrong_token_is_refused_even_on_an_open_hub(house: House, value: str) -> None:
    for rules in ({}, {"loopback_only": True}, {"insecure_open": True}):
        refusal = house.access(**rules).authenticate(head(authorization=value), HERE, "GET")
        assert code_of(refusal) == "bad_token"


def test_anonymous_requests_are_refused_beyond_loopback(house: House) -> None:
    refusal = house.access().authenticate([], FAR, "GET")
    assert isinstance(refusal, HttpError)
    assert refusal.status == 401
    assert (b"www-authenticate", b"Bearer") in refusal.headers


VIEWER = Identity(role="viewer", name="v")
ADMIN = Identity(role="admin", name="a")
NODE = Identity(role="node", name="n", node_id="id-1")
PERSON = Identity(role="viewer", name="alice", person="alice")


@pytest.mark.parametrize(
    "who, action, node_id, allowed, allowed_when_open",
    [
        (VIEWER, "view", None, True, True),
        (VIEWER, "report", "id-1", False, False),
        (VIEWER, "administrate", None, False, False),
        (VIEWER, "act", None, False, False),
        (PERSON, "act", None, True, True),
        (PERSON, "administrate", None, False, False),
        (ADMIN, "view", None, True, True),
        (ADMIN, "report", "id-1", False, False),
        (ADMIN, "administrate", None, True, True),
        (ADMIN, "act", None, True, True),
        (NODE, "view", None, False, False),
        (NODE, "report", "id-1", True, True),
        (NODE, "report", "id-2", False, False),
        (NODE, "administrate", None, False, False),
        (NODE, "act", None, False, False),
        (ANONYMOUS, "view", None, True, True),
        (ANONYMOUS, "report", "id-2", False, True),
        (ANONYMOUS, "report", "id-1", False, False),
        (ANONYMOUS, "administrate", None, False, False),
        (ANONYMOUS, "act", None, False, False),
    ],
)
def test_each_role_may_do_only_its_actions(
    house: House,
    who: Identity,
    action: Action,
    node_id: str | None,
    allowed: bool,
    allowed_when_open: bool,
) -> None:
    assert (house.access().authorize(who, action, node_id) is None) == allowed
    opened = house.access(insecure_open=True)
    assert (opened.authorize(who, action, node_id) is None) == allowed_when_open


def test_an_error_says_whether_to_log_in_or_that_the_role_is_wrong(house: House) -> None:
    access = house.access(loopback_only=True)
    nobody = access.authorize(ANONYMOUS, "administrate")
    viewer = access.authorize(VIEWER, "administrate")
    other = access.authorize(NODE, "report", "id-2")
    assert nobody is not None
    assert viewer is not None
    assert other is not None
    assert (nobody.status, viewer.status, other.status) == (401, 403, 403)
    assert other.code == "not_that_node"


def test_people_edit_their_own_and_admins_everything(house: House) -> None:
    assert may_edit(PERSON, "alice")
    assert not may_edit(PERSON, "bob")
    assert may_edit(ADMIN, "bob")
    assert not may_edit(VIEWER, VIEWER.name)
    assert (acting_name(PERSON), acting_name(ADMIN)) == ("alice", ADMIN.name)
    refused = house.access().authorize(VIEWER, "act")
    assert refused is not None
    assert "fleet-smi login" in refused.message


def test_the_hubs_own_user_is_a_person(house: House) -> None:
    own = house.credentials.identify_token("fsmi_local_x")
    assert own is not None
    assert own.person == pwd.getpwuid(os.geteuid()).pw_name


def test_loopback_clients_may_view_without_credentials(house: House) -> None:
    access = house.access(loopback_only=True)
    assert access.authenticate([], HERE, "GET") is ANONYMOUS


def test_guessing_tokens_is_rate_limited_and_valid_tokens_are_not(house: House) -> None:
    access = house.access()
    codes = [code_of(access.authenticate(with_token("wrong"), FAR, "GET")) for _ in range(12)]
    assert codes == ["bad_token"] * 10 + ["too_many_failures"] * 2
    assert sender(access, with_token(house.viewer)).name == "bob"
    assert sender(access, with_token(house.node)).node_id == "id-1"
    assert code_of(access.authenticate(with_token("wrong"), PROXY, "GET")) == "bad_token"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_on_loopback_the_hub_needs_no_credentials(host: str) -> None:
    assert bind_warning(host, has_viewers=False, insecure_open=False, tls=False) is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "gpuhub", "localhost.example"])
def test_beyond_loopback_it_warns_until_somebody_has_access(host: str) -> None:
    warning = bind_warning(host, has_viewers=False, insecure_open=False, tls=True)
    assert warning is not None
    assert "`fleet-smi hub token add --role viewer`" in warning
    assert "\n" not in warning
    assert bind_warning(host, has_viewers=False, insecure_open=True, tls=False) is None
    assert bind_warning(host, has_viewers=True, insecure_open=False, tls=True) is None
    proxied = bind_warning(host, has_viewers=False, insecure_open=False, tls=True, proxied=True)
    assert proxied is None


def test_unencrypted_tokens_cause_a_warning() -> None:
    warning = bind_warning("0.0.0.0", has_viewers=True, insecure_open=False, tls=False)
    assert warning is not None
    assert "--tls self-signed" in warning
