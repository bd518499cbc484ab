"""The way to act at the hub as a person: by a login, through the agent here, or as the hub's user.

`queue`, `wait`, `reserve` and `run --on` use it. Who asks is never what the asker says: the hub
knows a person by their own token, or by the kernel of a node, whose agent forwards requests.
"""

import argparse
import os
from typing import TYPE_CHECKING

from fleet_smi.errors import Refused, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.client.login_file import Login
    from fleet_smi.config import Settings

_NOBODY = (
    "the hub has to know who you are: run `fleet-smi login`, or run this on a node whose agent "
    "reports to the hub"
)
_ADMIN_PREFIX = "fsmi_admin_"


def acting_client(args: argparse.Namespace) -> "HubClient":
    """Return a client whose requests are those of this user; raise `Refused` if there is no way.

    `--hub` names a hub by its URL: then the agent, which has a hub of its own, is not asked.
    """
    from fleet_smi import config
    from fleet_smi.cli.fleet_source import own_hub_client
    from fleet_smi.client.hub import HubClient
    from fleet_smi.model.accounts import PERSONAL_PREFIX

    named = getattr(args, "hub", None)
    settings = config.load(flags={"client.hub": named})
    if is_token_named() and settings.client.hub is not None:
        return _client(settings, settings.client.hub, settings.client.read_token())
    found = find_login(settings)
    if found is not None:
        return login_client(*found)
    token = _read_token(settings)
    if settings.client.hub is not None and token is not None and token.startswith(PERSONAL_PREFIX):
        return _client(settings, settings.client.hub, token)
    agent = None if named else _agent_socket(settings)
    if agent is not None:
        from fleet_smi.client.agent_socket import AgentConnection

        return HubClient("", connection=AgentConnection(agent))
    own = own_hub_client(settings)
    if own is not None:
        return own
    if settings.client.hub is not None and token is not None and token.startswith(_ADMIN_PREFIX):
        return _client(settings, settings.client.hub, token)
    raise Refused(_NOBODY)


def is_token_named() -> bool:
    """Whether this one command was given a token."""
    return any(f"FLEET_SMI_CLIENT_{key}" in os.environ for key in ("TOKEN", "TOKEN_FILE"))


def find_login(settings: "Settings") -> "tuple[str, Login] | None":
    """Return this user's login at the hub that is set; without one set, their only login."""
    from fleet_smi.client.login_file import LoginFile
    from fleet_smi.paths import login_file

    logins = LoginFile(login_file(os.environ))
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
    from fleet_smi.paths import agent_sockets

    if settings.agent.socket == "off":
        return None
    set_path = [] if settings.agent.socket is None else [settings.agent.socket]
    paths = dict.fromkeys([*set_path, *agent_sockets(os.environ)])
    return next((path for path in paths if is_listening(path)), None)
