"""Requests of the live screen to the rest of the program, and the questions that it asks first."""

from typing import Literal

from msgspec import Struct

SignalName = Literal["TERM", "KILL"]


class SendSignal(Struct, frozen=True):
    """Send a signal to a process of a node."""

    signal: SignalName
    node_id: str
    pid: int
    started_at: float | None
    user: str | None
    uid: int | None


class Watch(Struct, frozen=True):
    """Fetch all of this node, again and again, until another is watched."""

    node_id: str | None
    at: float | None = None


class ShowPeople(Struct, frozen=True):
    """Fetch who holds GPUs."""

    at: float | None = None


class ShowQueue(Struct, frozen=True):
    """Fetch who waits for GPUs."""


class ShowHistory(Struct, frozen=True):
    """Fetch the strips of a node and the ribbon of the fleet over a range."""

    node: str
    since: float
    until: float
    columns: int


class GoTo(Struct, frozen=True):
    """Show the fleet at a moment of the past; `None` is now."""

    at: float | None


class ChangeTheme(Struct, frozen=True):
    """Use the next theme."""


class Quit(Struct, frozen=True):
    """End the program."""


Request = SendSignal | Watch | ShowPeople | ShowQueue | ShowHistory | GoTo | ChangeTheme | Quit


class Question(Struct, frozen=True):
    """A question before something that cannot be undone."""

    text: str
    request: SendSignal
