"""Optional extras: the modules that each one installs, and the command that installs it."""

import os
import sys
from importlib.util import find_spec

from fleet_smi.errors import UsageError

EXTRAS: dict[str, tuple[str, ...]] = {
    "hub": (
        "argon2",
        "cryptography",
        "httptools",
        "itsdangerous",
        "numpy",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
    ),
    "mcp": ("mcp",),
    "nats": ("nats",),
    "otlp": ("httpx", "opentelemetry"),
    "postgres": ("psycopg",),
    "remote-write": ("cramjam", "httpx"),
    "top": ("rich", "textual"),
    "zmq": ("zmq",),
}
"""The extras of pyproject.toml and the modules of their packages; `all` and `cluster` join some."""
HUB_PYTHON = (3, 11)
"""The oldest Python that a hub runs on; everything else runs on 3.10 as well."""


def require_extra(extra: str, needed_by: str) -> None:
    """Raise `UsageError` with the command that installs an extra, if a module of it is missing."""
    if _is_too_old_for(extra) or any(find_spec(module) is None for module in EXTRAS[extra]):
        raise missing_extra(extra, needed_by)


def missing_extra(extra: str, needed_by: str) -> UsageError:
    """The error for an extra that is not installed, or that this Python is too old for."""
    if _is_too_old_for(extra):
        wanted, present = (".".join(map(str, v)) for v in (HUB_PYTHON, sys.version_info[:3]))
        return UsageError(f"{needed_by} needs Python {wanted} or newer; this is Python {present}")
    return UsageError(
        f"{needed_by} needs the extra `{extra}`, which is not installed: {install_command(extra)}"
    )


def find_extra(module: str | None) -> str | None:
    """The extra that installs a module, if one does."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if package in modules), None)


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation."""
    requirement = f"'fleet-smi[{extra}]'"
    if os.path.exists(os.path.join(sys.prefix, "debian")):  # the environment of our deb
        return f"sudo apt install fleet-smi-{'top' if extra == 'top' else 'hub'}"
    # Files that the two installers of applications leave in the environments they manage.
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx install --force {_requirement_with_origin(extra)}"
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return f"uv tool install {_requirement_with_origin(extra)}"
    if find_spec("pip") is None:  # as in an environment that uv has made
        return f"uv pip install --python {sys.executable} {requirement}"
    return f"{sys.executable} -m pip install {requirement}"


def _requirement_with_origin(extra: str) -> str:
    """The requirement, with the wheel or the clone that this was installed from, if from one.

    pip adds an extra to what is installed; the installers of applications reinstall.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = distribution("fleet-smi").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    url = json.loads(origin)["url"] if origin else None
    return f"'fleet-smi[{extra}]'" if url is None else f"'fleet-smi[{extra}] @ {url}'"


def _is_too_old_for(extra: str) -> bool:
    return extra == "hub" and sys.version_info < HUB_PYTHON
