"""The way to act at the hub as a person: by a login, through the agent here, or as the hub's user.

`queue`, `wait`, `reserve` and all that takes leases use it. Who asks is never what the asker says:
the hub knows a person by their token, or by the kernel of a node, whose agent forwards requests.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet_smi import paths
from fleet_smi.errors import Refused, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.client.login_file import Login
    from fleet_smi.config import Settings
    from fleet_smi.hub.state_folder import RunningHub

_NOBODY = (
    "the hub has to know who you are: run `fleet-smi login`, or run this on a node whose agent "
    "reports to the hub"
)
_ADMIN_PREFIX = "fsmi_admin_"


def may_have_hub(settings: "Settings", hub: str | None = None) -> bool:
    """Return whether a hub is named, runs here, or has an agent here, without asking any."""
    if hub or settings.client.hub is not None:
        return True
    if os.path.exists(os.path.join(settings.hub.state, "address")):  # noqa: PTH110, PTH118
        return True
    return any(os.path.exists(path) for path in _agent_sockets(settings))  # noqa: PTH110


def acting_client(hub: str | None = None) -> "HubClient":
    """Return a client whose requests are those of this user; raise `Refused` if there is no way.

    `hub` names a hub by its URL: then the agent, which has a hub of its own, is not asked.
    """
    from fleet_smi import config
    from fleet_smi.client.hub import HubClient
    from fleet_smi.model.accounts import PERSONAL_PREFIX

    settings = config.load(flags={"client.hub": hub})
    if is_token_named() and settings.client.hub is not None:
        return _client(settings, settings.client.hub, settings.client.read_token())
    found = find_login(settings)
    if found is not None:
        return login_client(*found)
    token = _read_token(settings)
    if settings.client.hub is not None and token is not None and token.startswith(PERSONAL_PREFIX):
        return _client(settings, settings.client.hub, token)
    agent = None if hub else _agent_socket(settings)
    if agent is not None:
        from fleet_smi.client.agent_socket import AgentConnection

        return HubClient("", connection=AgentConnection(agent))
    own = own_hub_client(settings)
    if own is not None:
        return own
    if settings.client.hub is not None and token is not None and token.startswith(_ADMIN_PREFIX):
        return _client(settings, settings.client.hub, token)
    raise Refused(_NOBODY)


def own_hub_client(settings: "Settings") -> "HubClient | None":
    """Return a client of the hub that this user runs here, unless another hub or token is set."""
    from pathlib import Path

    from fleet_smi.client.hub import HubClient
    from fleet_smi.hub.state_folder import read_local_admin_token, read_running_hub

    folder, url = Path(settings.hub.state), settings.client.hub
    own = read_running_hub(folder)
    if own is None or (url is not None and not _is_own(url, own, settings.hub.hosts)):
        return None
    # Whatever token is set for this hub: who can read its state folder is its admin. By the
    # address of this machine, so that the token reaches no other.
    admin = None if is_token_named() else read_local_admin_token(folder)
    if admin is not None:
        return HubClient(own.local_url, token=admin, fingerprint=own.fingerprint)
    if url is not None:
        return None
    client = settings.client
    return HubClient(own.local_url, token=client.read_token(), fingerprint=client.fingerprint)


def _is_own(url: str, own: "RunningHub", hosts: Sequence[str]) -> bool:
    """Whether the URL is that of the user's own hub, directly or through its proxy (`hosts`)."""
    from fleet_smi.client.connection import parse_hub_url
    from fleet_smi.config.ip_addresses import is_loopback

    scheme, host, port, _ = parse_hub_url(url)
    own_scheme, own_host, own_port, _ = parse_hub_url(own.url)
    if host in hosts:
        return True
    # Another port of this machine may be another hub.
    is_here = is_loopback(host) or host in (own_host, parse_hub_url(own.local_url)[1])
    return (scheme, port) == (own_scheme, own_port) and is_here


def is_token_named() -> bool:
    """Whether this one command was given a token."""
    return any(f"FLEET_SMI_CLIENT_{key}" in os.environ for key in ("TOKEN", "TOKEN_FILE"))


def find_login(settings: "Settings") -> "tuple[str, Login] | None":
    """Return this user's login at the hub that is set; without one set, their only login."""
    from fleet_smi.client.login_file import LoginFile

    logins = LoginFile(paths.login_file(os.environ))
    url = settings.client.hub
    if url is None:
        urls = logins.urls
        url = urls[0] if len(urls) == 1 else None
    login = None if url is None else logins.get(url)
    return None if url is None or login is None else (url, login)


def login_client(url: str, login: "Login") -> "HubClient":
    """Return a client with the token of a login."""
    from fleet_smi.client.hub import HubClient

    return HubClient(url, token=login.token, fingerprint=login.fingerprint)


def _client(settings: "Settings", url: str, token: str | None) -> "HubClient":
    from fleet_smi.client.hub import HubClient

    return HubClient(url, token=token, fingerprint=settings.client.fingerprint)


def _read_token(settings: "Settings") -> str | None:
    try:
        return settings.client.read_token()
    except UsageError:
        return None  # a file that only others may read: there may be another way


def _agent_socket(settings: "Settings") -> str | None:
    """Return where an agent of this machine listens; `None` if none does."""
    from fleet_smi.client.agent_socket import is_listening

    return next((path for path in _agent_sockets(settings) if is_listening(path)), None)


def _agent_sockets(settings: "Settings") -> list[str]:
    """Return where an agent of this machine may listen."""
    if settings.agent.socket == "off":
        return []
    named = [] if settings.agent.socket is None else [settings.agent.socket]
    return list(dict.fromkeys([*named, *paths.agent_sockets(os.environ)]))
