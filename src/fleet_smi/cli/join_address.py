"""The address that `fleet-smi hub join-command` prints: where nodes reach the hub, and its pin."""

import socket
from pathlib import Path
from typing import NamedTuple

from fleet_smi.client.connection import parse_hub_url
from fleet_smi.config import Settings
from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback
from fleet_smi.errors import UsageError
from fleet_smi.hub.state_folder import read_running_hub
from fleet_smi.server.join_line import with_port
from fleet_smi.server.tls import hub_certificate, read_fingerprint


class JoinAddress(NamedTuple):
    """The hub's URL for nodes, and the fingerprint that they pin, if any."""

    url: str
    fingerprint: str | None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(parse_hub_url(self.url)[1])


def join_address(settings: Settings, given_url: str | None) -> JoinAddress:
    """Return the address for nodes: the given URL, else the public one, else where it listens.

    Raise `UsageError` where only a proxy can be reached by nodes and its URL is not known.
    """
    hub = settings.hub
    fingerprint = _fingerprint(settings)
    public_url = hub.public_url and with_port(hub.public_url)
    url = given_url or public_url or _listening_url(settings, fingerprint)
    # The certificate that nodes see there is the one of the proxy.
    is_proxied = bool(hub.trusted_proxies) and (url == public_url or is_loopback(hub.listen.host))
    return JoinAddress(url, fingerprint if url.startswith("https:") and not is_proxied else None)


def _fingerprint(settings: Settings) -> str | None:
    hub, folder = settings.hub, Path(settings.hub.state)
    if hub.tls_cert:
        return None
    if hub.tls is not None:
        # Also before the hub's first start: the line must be good once it runs.
        return hub_certificate(folder, hub.hosts).fingerprint
    return read_fingerprint(folder)


def _listening_url(settings: Settings, fingerprint: str | None) -> str:
    # A running hub knows its address, which may differ from the settings of this shell.
    running = read_running_hub(Path(settings.hub.state))
    host = parse_hub_url(running.url)[1] if running else settings.hub.listen.host
    if is_loopback(host) and settings.hub.trusted_proxies:
        raise UsageError(
            "nodes reach this hub through a proxy: set hub.public_url to its URL there, "
            "like https://gpu.example.org/gpus, or give --url"
        )
    if running:
        return running.url
    if host in WILDCARDS:
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    secure = fingerprint is not None or settings.hub.tls_cert is not None
    return f"{'https' if secure else 'http'}://{shown}:{settings.hub.listen.port}"
