"""Who a client of the hub is, and the personal token that it is given."""

from typing import Literal

from msgspec import Struct

PERSONAL_PREFIX = "fsmi_personal_"
"""How a personal token begins: a client sees by it that its requests have a person."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """The identity of the sender, and the way it was authenticated.

    `person` is `None` where nobody in particular is known: with a token that several may share, or
    without a login.
    """

    name: str
    role: Literal["node", "viewer", "admin"]
    how: str
    person: str | None = None


class PersonalTokenMade(Struct, frozen=True, kw_only=True):
    """A new personal token, shown this once: the hub stores only its hash."""

    id: str
    token: str
    person: str
    role: Literal["viewer", "admin"]
