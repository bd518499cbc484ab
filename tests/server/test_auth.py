"""Authentication and authorization: tokens, sessions, proxies and anonymous clients."""

import asyncio
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.hub.credentials import CredentialCache, Identity
from fleet_smi.hub.database import open_database
from fleet_smi.server.auth import (
    ANONYMOUS,
    SESSION_COOKIE,
    AccessControl,
    Action,
    acting_name,
    bind_warning,
    check_same_origin,
    may_edit,
)
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.rate_limit import AuthRateLimiter

HERE, PROXY, FAR = "127.0.0.1", "10.0.0.9", "203.0.113.7"
PASSWORD = "correct horse battery"
OWN_PAGE = {"host": "hub:7070", "origin": "http://hub:7070", "content-type": "application/json"}


def head(values: dict[str, str] | None = None, **more: str) -> Headers:
    named = {**(values or {}), **{name.replace("_", "-"): value for name, value in more.items()}}
    return [(name.encode(), value.encode()) for name, value in named.items()]


def with_token(token: str) -> Headers:
    return head(authorization=f"Bearer {token}")


class House:
    """One hub's credentials with one of each kind in them."""

    def __init__(self, state: Path) -> None:
        self._engine = open_database(state)
        self.credentials = CredentialCache(self._engine, local_admin_token="fsmi_local_x")
        add = self.credentials.tokens.add
        self.viewer, self.admin = add("viewer", "bob").secret, add("admin", "eve").secret
        self.node = self.credentials.redeem_join_token(add("join").secret, "id-1", "gpu1").secret
        self.credentials.users.add("alice", PASSWORD, "admin")
        self.credentials.refresh()

    def access(self, **rules: Any) -> AccessControl:
        rules = {"loopback_only": False, **rules}
        return AccessControl(self.credentials, AuthRateLimiter(lambda: 1000.0), **rules)

    def login(self, access: AccessControl, **headers: str) -> HttpError | tuple[bytes, bytes]:
        requested = access.login(head({**OWN_PAGE, **headers}), FAR, "alice", PASSWORD)
        return asyncio.run(requested)

    def session(self) -> str:
        """What a browser sends back once alice has logged in."""
        response = self.login(self.access())
        assert not isinstance(response, HttpError)
        return response[1].decode().partition(";")[0]

    def close(self) -> None:
        self.credentials.close()
        self._engine.dispose()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    built = House(tmp_path_factory.mktemp("house") / "state")
    yield built
    built.close()


def code_of(refusal: Identity | HttpError | None) -> str | None:
    return refusal.code if isinstance(refusal, HttpError) else None


def sender(
    access: AccessControl, headers: Headers, peer: str = FAR, method: str = "GET"
) -> Identity:
    who = access.authenticate(headers, peer, method)
    assert isinstance(who, Identity)
    return who


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


BASIC = "Basic YWxpY2U6eA=="


def test_the_login_at_a_proxy_is_not_a_token(house: House) -> None:
    rules = {"trusted_proxies": [PROXY], "user_header": "X-Remote-User", "admins": ["alice"]}
    named = head(authorization=BASIC, x_remote_user="alice")
    assert sender(house.access(**rules), named, PROXY).role == "admin"
    assert code_of(house.access(**rules).authenticate(named, FAR, "GET")) == "unauthenticated"
    in_session = head(authorization=BASIC, cookie=house.session())
    assert sender(house.access(trusted_proxies=[PROXY]), in_session, PROXY).name == "alice"
    assert code_of(house.access().authenticate(head(authorization=BASIC), FAR, "GET")) == (
        "unauthenticated"
    )


def test_a_token_beside_another_authorization_is_checked(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY], user_header="X-Remote-User")
    both = [*head(authorization=BASIC, x_remote_user="alice"), *head(authorization="Bearer x")]
    assert code_of(access.authenticate(both, PROXY, "GET")) == "bad_token"


def test_only_a_trusted_proxy_says_how_a_client_reached_it(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY])
    forwarded = head(host="hub:7070", x_forwarded_proto="https, http", x_forwarded_host="gpu, b")
    assert access.forwarded_origin(forwarded, PROXY) == "https://gpu"
    assert access.forwarded_origin(forwarded, FAR) is None
    assert (
        access.forwarded_origin(head(host="gpu", x_forwarded_proto="http"), PROXY) == "http://gpu"
    )
    assert access.forwarded_origin(head(host="gpu", x_forwarded_proto="gopher"), PROXY) is None
    assert access.forwarded_origin(head(host="gpu"), PROXY) is None


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


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host"])
def test_clients_of_a_local_reverse_proxy_do_not_count_as_loopback(house: House, name: str) -> None:
    access = house.access(loopback_only=True)
    assert code_of(access.authenticate(head({name: FAR}), HERE, "GET")) == "unauthenticated"
    access = house.access(loopback_only=True, trusted_proxies=[HERE], user_header="X-User")
    assert code_of(access.authenticate([], HERE, "GET")) == "unauthenticated"


def test_a_trusted_proxy_names_the_user(house: House) -> None:
    access = house.access(
        trusted_proxies=["10.0.0.0/24"], user_header="X-Remote-User", admins=["root"]
    )
    who = sender(access, head(x_remote_user="carol"), PROXY)
    assert who == Identity(role="viewer", name="carol", auth_method="proxy", person="carol")
    assert sender(access, head(x_remote_user="root"), PROXY).role == "admin"
    assert sender(access, head(x_remote_user="root"), f"::ffff:{PROXY}").role == "admin"


def test_the_user_header_of_an_untrusted_peer_is_ignored(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY], user_header="X-Remote-User", admins=["root"])
    for peer in (FAR, HERE, "10.0.0.10", "", "proxy.example"):
        assert (
            code_of(access.authenticate(head(x_remote_user="root"), peer, "GET"))
            == "unauthenticated"
        )
    silent = house.access(trusted_proxies=[PROXY])
    assert (
        code_of(silent.authenticate(head(x_remote_user="root"), PROXY, "GET")) == "unauthenticated"
    )


def test_an_invalid_proxy_network_is_an_error(house: House) -> None:
    with pytest.raises(UsageError, match="trusted proxies"):
        house.access(trusted_proxies=["everyone"])


def test_behind_a_trusted_proxy_failures_count_against_the_client(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY])
    forwarded = head(x_forwarded_for=f"198.51.100.1, {FAR}, {PROXY}")
    assert access.client_address(forwarded, PROXY) == FAR
    assert access.client_address(forwarded, HERE) == HERE
    assert access.client_address([], PROXY) == PROXY


def test_the_session_cookie_is_http_only_and_same_site(house: House) -> None:
    for tls in (False, True):
        response = house.login(house.access(tls=tls))
        assert not isinstance(response, HttpError)
        name, value = response
        assert name == b"set-cookie"
        pair, *attributes = value.decode().split("; ")
        assert pair.startswith(f"{SESSION_COOKIE}=")
        assert {"Path=/", "Max-Age=1209600", "HttpOnly", "SameSite=Strict"} <= set(attributes)
        assert ("Secure" in attributes) == tls


def test_a_session_identifies_the_user(house: House) -> None:
    access = house.access()
    who = sender(access, head(cookie=f"other=1; {house.session()}; more=2"))
    assert who == Identity(role="admin", name="alice", auth_method="session", person="alice")


def test_an_expired_session_is_not_accepted(house: House) -> None:
    stale = head(cookie=f"{SESSION_COOKIE}=stale")
    assert code_of(house.access().authenticate(stale, FAR, "GET")) == "unauthenticated"
    assert house.access(loopback_only=True).authenticate(stale, HERE, "GET") is ANONYMOUS


def test_logging_out_deletes_the_cookie(house: House) -> None:
    for headers in ([], head(cookie=f"{SESSION_COOKIE}=stale"), head(cookie=house.session())):
        _, value = asyncio.run(house.access().logout(headers))
        assert value.startswith(f"{SESSION_COOKIE}=;".encode())
        assert b"Max-Age=0" in value


def test_logging_out_invalidates_copies_of_the_cookie(house: House) -> None:
    access, copied, other = house.access(), head(cookie=house.session()), house.session()
    asyncio.run(access.logout(list(copied)))
    assert code_of(access.authenticate(copied, FAR, "GET")) == "unauthenticated"
    assert sender(access, head(cookie=other)).name == "alice"


@pytest.mark.parametrize(
    "headers, code",
    [
        ({**OWN_PAGE}, None),
        ({**OWN_PAGE, "sec-fetch-site": "same-origin"}, None),
        ({**OWN_PAGE, "sec-fetch-site": "same-origin", "host": "rewritten"}, None),
        ({**OWN_PAGE, "sec-fetch-site": "cross-site"}, "cross_site"),
        ({**OWN_PAGE, "sec-fetch-site": "same-site"}, "cross_site"),
        ({**OWN_PAGE, "sec-fetch-site": "none"}, "cross_site"),
        ({**OWN_PAGE, "origin": "http://evil.example"}, "cross_site"),
        ({**OWN_PAGE, "origin": "http://hub:8080"}, "cross_site"),
        ({**OWN_PAGE, "origin": "null"}, "cross_site"),
        ({"host": "hub:7070", "content-type": "application/json"}, "cross_site"),
        ({**OWN_PAGE, "content-type": "text/plain"}, "not_json"),
        ({**OWN_PAGE, "content-type": "application/x-www-form-urlencoded"}, "not_json"),
        ({**OWN_PAGE, "content-type": "Application/JSON; charset=utf-8"}, None),
    ],
)
def test_a_change_with_a_cookie_must_come_from_the_hubs_own_page(
    house: House, headers: dict[str, str], code: str | None
) -> None:
    requested = head({**headers, "cookie": house.session()})
    for method in ("POST", "PATCH", "DELETE"):
        assert code_of(house.access().authenticate(requested, FAR, method)) == code
    assert sender(house.access(), requested).name == "alice"


def test_a_change_with_a_proxy_user_must_come_from_the_hubs_own_page(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY], user_header="x-user")
    evil = head(OWN_PAGE, origin="http://evil.example", x_user="carol")
    assert code_of(access.authenticate(evil, PROXY, "POST")) == "cross_site"
    assert sender(access, head(OWN_PAGE, x_user="carol"), PROXY, "POST").name == "carol"


def test_a_foreign_page_cannot_report_to_an_open_hub(house: House) -> None:
    access = house.access(insecure_open=True)
    assert access.authenticate([], FAR, "POST") is ANONYMOUS
    evil = head(host="localhost:7070", origin="http://evil.example")
    assert code_of(access.authenticate(evil, HERE, "POST")) == "cross_site"
    assert check_same_origin(head(host="hub"), has_ambient_credentials=False) is None


def test_wrong_passwords_are_refused_and_then_rate_limited(house: House) -> None:
    access = house.access()

    async def scenario() -> list[str | None]:
        attempts = (access.login(head(OWN_PAGE), FAR, "alice", "wrong") for _ in range(14))
        return [code_of(response) for response in await asyncio.gather(*attempts)]  # type: ignore[arg-type]

    codes = asyncio.run(scenario())
    assert codes.count("bad_login") == 10
    assert codes.count("too_many_failures") == 4
    assert code_of(house.login(access)) == "too_many_failures"  # type: ignore[arg-type]


def test_successful_logins_are_not_rate_limited(house: House) -> None:
    access = house.access()
    for _ in range(12):
        assert not isinstance(house.login(access), HttpError)


def test_a_foreign_page_cannot_log_a_browser_in(house: House) -> None:
    response = house.login(house.access(), origin="http://evil.example")
    assert isinstance(response, HttpError)
    assert response.code == "cross_site"


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
