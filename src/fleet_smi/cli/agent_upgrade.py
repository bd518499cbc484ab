"""`fleet-smi agent upgrade`: bring this node's agent to the hub's version, or back if it fails."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from fleet_smi import config
from fleet_smi.cli.background_agent import background_agent
from fleet_smi.cli.service_join import SYSTEM_STATE
from fleet_smi.cli.service_scope import SYSTEM, user_scope
from fleet_smi.cli.systemd_units import unit_name
from fleet_smi.client.connection import HubConnection
from fleet_smi.client.responses import decode_response, response_error
from fleet_smi.config.layers import DEFAULT_ORIGIN
from fleet_smi.errors import DeliveryError, FleetError, NotFound, Unmet
from fleet_smi.node.bindings import agent_installer, systemd
from fleet_smi.node.bindings.agent_installer import HubFiles
from fleet_smi.node.bindings.wheel_tags import InstallError, Wheel
from fleet_smi.node.credential_file import CredentialFile

_POLL_SECONDS = 0.5
_USER_NAME = "fleet-smi"


class _WheelFile(Struct):
    name: str
    sha256: str


class _WheelList(Struct):
    wheels: list[_WheelFile]


class _AgentState(Struct):
    now: float
    agent_version: str | None = None
    reported_at: float | None = None


class _Hub(NamedTuple):
    """The hub of this node's agent, and the node's credential there."""

    url: str
    fingerprint: str | None
    token: str

    def get(self, path: str) -> bytes:
        """The body of a response; raise `FleetError`."""
        connection = HubConnection(self.url, token=self.token, fingerprint=self.fingerprint)
        try:
            response = connection.request("GET", path)
        finally:
            connection.close()
        if response.status >= 300:
            raise response_error(response, self.url)
        return response.body

    def agent_state(self) -> _AgentState:
        """Return the state of this node at the hub."""
        return decode_response(self.get("/api/v1/agent"), _AgentState)


class _Service(NamedTuple):
    """How the agent runs here: its settings, its state folder, and how it is restarted."""

    environment: dict[str, str]
    state: str
    restart: Callable[[], None]


def run(args: argparse.Namespace) -> int:
    """Install the hub's version beside this one, switch, and go back unless it reports."""
    prefix = _prefix()
    service = _find_service()
    hub = _find_hub(service)
    try:
        return _upgrade(args, prefix, service, hub)
    except InstallError as error:
        raise Unmet(str(error)) from None


def _upgrade(args: argparse.Namespace, prefix: str, service: _Service, hub: _Hub) -> int:
    files = HubFiles(hub.url, hub.fingerprint, hub.token)
    if not args.insecure_http:
        files.require_encryption()
    wheels = [Wheel(wheel.name, wheel.sha256) for wheel in _list_wheels(hub).wheels]
    before = os.path.realpath(f"{prefix}/{agent_installer.CURRENT}")
    folder = agent_installer.install(prefix, wheels, files)
    version = _version(folder)
    if folder == before:
        print(f"the agent has the hub's version already: {version}")
        return 0
    _say(f"installed {version} in {folder}; restarting the agent")
    since = hub.agent_state().now
    agent_installer.switch(prefix, folder)
    try:
        service.restart()
        _wait_for_report(hub, version, since, args.wait)
    except FleetError as error:
        _say(f"{error}; going back to {_version(before)}")
        agent_installer.switch(prefix, before)
        service.restart()
        agent_installer.remove_others(prefix, before)
        raise Unmet(
            f"the agent is {_version(before)} as before: {version} did not report to the "
            f"hub within {args.wait:g} s; its log says why"
        ) from None
    agent_installer.remove_others(prefix, folder, before)
    print(f"upgraded from {_version(before)} to {version}; it reports to {hub.url}")
    return 0


def _list_wheels(hub: _Hub) -> _WheelList:
    try:
        return decode_response(hub.get("/install/wheels"), _WheelList)
    except NotFound:
        raise Unmet(f"the hub {hub.url} is too old to hand out agents: upgrade it first") from None


def _wait_for_report(hub: _Hub, version: str, since: float, seconds: float) -> None:
    """Wait until the hub has a new report of this version; raise `Unmet` after too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        try:
            state = hub.agent_state()
        except DeliveryError:
            continue
        is_new = state.reported_at is not None and state.reported_at > since
        if is_new and state.agent_version == version:
            return
    raise Unmet(f"no report of {version} has reached the hub in {seconds:g} s")


def _prefix() -> str:
    """The folder of the versions; raise `Unmet` if this fleet-smi was installed by other means."""
    prefix = Path(sys.prefix).resolve().parent
    if not (prefix / agent_installer.CURRENT).is_symlink():
        raise Unmet(
            "this fleet-smi was not installed from a hub: upgrade it the way it was installed, "
            "with apt, pipx or pip, and restart its agent"
        )
    if not os.access(prefix, os.W_OK):
        raise Unmet(f"{prefix} belongs to another user: run this with sudo")
    return str(prefix)


def _find_service() -> _Service:
    """The agent that runs from this installation; raise `Unmet` if there is none."""
    scope = SYSTEM if os.geteuid() == 0 else user_scope()
    environment = {**scope.settings_environment, **_read_variables(scope.env_path("agent"))}
    name = unit_name("agent")
    is_unit = Path(scope.unit_path(name)).exists()
    state = config.resolve(environment, {}).values["agent.state"]
    folder = str(state.value)
    if not scope.is_user and state.origin == DEFAULT_ORIGIN:
        folder = SYSTEM_STATE
    agent = background_agent(scope, _USER_NAME, folder)
    if not is_unit and not agent.is_installed():
        raise Unmet("no agent is installed here as a service: see `fleet-smi service --help`")
    if is_unit:
        restart = (*scope.systemctl, "restart", name)
        return _Service(environment, folder, lambda: systemd.run(restart))
    return _Service({**environment, **_read_variables(agent.script)}, folder, agent.restart)


def _read_variables(path: str) -> dict[str, str]:
    """The settings in an environment file, or in the script of a background agent."""
    import shlex

    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return {}
    words = [line.removeprefix("export ") for line in lines]
    pairs = [word.partition("=") for word in words if word.startswith("FLEET_SMI_")]
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def _find_hub(service: _Service) -> _Hub:
    """The first of the agent's hubs that answers; raise `Unmet` if the node has not joined."""
    settings = config.resolve(service.environment, {})
    settings.raise_if_invalid()
    names: str = settings.values["agent.to"].value or ""
    pin = settings.values["agent.fingerprint"].value
    # The hubs of a cluster share one credential, under all their names.
    token = CredentialFile(service.state).get(names if "," in names else names.rstrip("/"))
    if not names or token is None:
        raise Unmet(
            "this node has not joined a hub: use the line that `fleet-smi hub join-command` prints"
        )
    *others, last = [_Hub(url.strip().rstrip("/"), pin, token) for url in names.split(",")]
    for hub in others:
        with suppress(DeliveryError):
            hub.agent_state()
            return hub
    return last


def _version(folder: str) -> str:
    return Path(folder).name.rpartition("-")[0]


def _say(text: str) -> None:
    print(f"fleet-smi: {text}", file=sys.stderr, flush=True)
