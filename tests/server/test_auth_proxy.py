"""Authentication behind a reverse proxy: whom it names, and whom to believe."""

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.hub.credentials import Identity
from tests.server.credentials_of_a_hub import (
    FAR,
    HERE,
    OWN_PAGE,
    PROXY,
    House,
    code_of,
    head,
    sender,
)

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


def test_a_change_with_a_proxy_user_must_come_from_the_hubs_own_page(house: House) -> None:
    access = house.access(trusted_proxies=[PROXY], user_header="x-user")
    evil = head(OWN_PAGE, origin="http://evil.example", x_user="carol")
    assert code_of(access.authenticate(evil, PROXY, "POST")) == "cross_site"
    assert sender(access, head(OWN_PAGE, x_user="carol"), PROXY, "POST").name == "carol"
