"""The MCP server over HTTP: its address, the host names that it answers to, and uvicorn."""

import socket
import sys
from typing import Any

import uvicorn
from mcp.server import Server

from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback
from fleet_smi.errors import Unmet
from fleet_smi.mcp.server import create_http_app

_LOOPBACK_NAMES = ["127.0.0.1", "localhost", "[::1]"]
_BACKLOG, _MAX_CONNECTIONS = 64, 128


def serve_http(
    server: Server[Any], address: ListenAddress, *, token: str | None, more_hosts: list[str]
) -> None:
    """Serve until interrupted; print the URL first."""
    listener = _listen(address)
    port = listener.getsockname()[1]
    hosts = host_names(address.host, more_hosts)
    # stdout is for programs: the parent process may read the URL from it.
    print(f"http://{hosts[0]}:{port}/mcp", flush=True)
    if not is_loopback(address.host):
        text = "plain HTTP: put it behind a proxy with TLS, or use ssh -L, where others may listen"
        print(f"fleet-smi: {text}", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        create_http_app(server, hosts, token),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])


def host_names(host: str, more: list[str]) -> list[str]:
    """Return the names in a `Host` header that mean this server, the best one first."""
    if is_loopback(host):
        named = [] if host in ("::1", "127.0.0.1") else [host]
        return [*named, *_LOOPBACK_NAMES, *more]
    own = socket.gethostname()
    named = [own] if host in WILDCARDS else [f"[{host}]" if ":" in host else host]
    return list(dict.fromkeys([*named, *more, own, own.partition(".")[0], *_LOOPBACK_NAMES]))


def _listen(address: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise Unmet(f"cannot listen on {address}: {error.strerror or error}") from None
