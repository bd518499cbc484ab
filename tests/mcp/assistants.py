"""The SDK's own client as an assistant, over stdio and over HTTP."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

_T = TypeVar("_T")
Session = Callable[[Client], Awaitable[_T]]
_TIMEOUT_SECONDS = 60.0


def over_stdio(arguments: list[str], env: Mapping[str, str], session: Session[_T]) -> _T:
    """Run a session with a server that the client starts, as assistants do."""
    command = ["-m", "fleet_smi", "mcp", *arguments]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(env))
    return _run(Client(server, read_timeout_seconds=_TIMEOUT_SECONDS), session)


def over_http(url: str, token: str | None, session: Session[_T]) -> _T:
    """Run a session with a server that listens there."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def connect() -> _T:
        async with httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT_SECONDS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, read_timeout_seconds=_TIMEOUT_SECONDS) as client:
                return await session(client)

    return asyncio.run(connect())


def _run(client: Client, session: Session[_T]) -> _T:
    async def connect() -> _T:
        async with client as opened:
            return await session(opened)

    return asyncio.run(connect())


@contextmanager
def http_server(*arguments: str, env: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Run `fleet-smi mcp --http 0`; yield its URL and the token that it printed, if any."""
    command = [sys.executable, "-m", "fleet_smi", "mcp", "--http", "0", *arguments]
    with subprocess.Popen(
        command, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            token = None
            if "--no-token" not in arguments and "--token-file" not in arguments:
                token = server.stderr.readline().split()[-1]
            yield server.stdout.readline().strip(), token
        finally:
            server.terminate()


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool and return its structured answer."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert text_of(result).strip()
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails; return its error, which is one line."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    text = text_of(result)
    assert "\n" not in text
    assert "Traceback" not in text
    return text
