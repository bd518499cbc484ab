"""Requests that an agent forwards for a user of its machine: which, and how the user is named."""

import re
from urllib.parse import quote, unquote

from fleet_smi.model.safe_text import sanitize_text

USER_HEADER = "X-Fleet-Smi-User"
"""The user of a forwarded request, percent-encoded. A hub accepts it from nodes only."""
MAX_USER_LENGTH = 128
# The parts of a path are plain: what a proxy would decode or resolve is not forwarded.
_PATH = re.compile(r"/api/v1/([a-z]+)((?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*)")
_CHANGING = ("queue", "reservations")
_READABLE = ("free", "offers", "session")
_METHODS = ("GET", "POST", "PATCH", "DELETE")


def may_forward(method: str, path: str) -> bool:
    """Return whether a user may send this request through an agent; `path` is without a query."""
    match = _PATH.fullmatch(path)
    if match is None or method not in _METHODS:
        return False
    resource, rest = match.groups()
    return resource in _CHANGING or (resource in _READABLE and not rest and method == "GET")


def encode_user(name: str) -> str:
    """Encode the name of a user for a header."""
    # A name that is not UTF-8 is sent as it is: the hub refuses it.
    return quote(name, safe="", errors="surrogateescape")


def decode_user(text: str) -> str | None:
    """Decode the name of a user; `None` for one that is empty, too long or not printable."""
    try:
        name = unquote(text[: 12 * MAX_USER_LENGTH], errors="strict")
    except UnicodeDecodeError:
        return None
    return name if name and sanitize_text(name, MAX_USER_LENGTH) == name else None
