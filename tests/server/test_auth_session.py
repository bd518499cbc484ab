"""Sessions of browsers: login, cookies, logout, and requests of foreign pages."""

import asyncio

import pytest

from fleet_smi.hub.credentials import Identity
from fleet_smi.server.auth import (
    ANONYMOUS,
    SESSION_COOKIE,
    check_same_origin,
)
from fleet_smi.server.http_error import HttpError
from tests.server.credentials_of_a_hub import (
    FAR,
    HERE,
    OWN_PAGE,
    House,
    code_of,
    head,
    sender,
)


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
