"""Output of `fleet-smi hub token list` and `user list`: a table, or JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet_smi.hub.tokens import Token
    from fleet_smi.hub.users import User


def print_tokens(tokens: Sequence["Token"], now: float) -> None:
    """Print one line per token: its role, note, person, node, last use, and whether it is valid."""
    head = ("ID", "ROLE", "NOTE", "PERSON", "NODE", "USED", "STATE")
    _print_table(head, [_token_row(token, now) for token in tokens])


def print_users(users: Sequence["User"], now: float) -> None:
    """Print one line per user: name, role, and how long ago the user was created."""
    rows = [(user.name, user.role, _ago(user.created_at, now)) for user in users]
    _print_table(("NAME", "ROLE", "SINCE"), rows)


def print_json(value: Any) -> None:
    """Print the value as indented JSON."""
    from fleet_smi.wire.json import to_json

    print(to_json(value, pretty=True).decode())


def _token_row(token: "Token", now: float) -> tuple[str, ...]:
    from fleet_smi.model.units import format_duration

    state = token.invalid_reason(now) or "valid"
    if state == "valid" and token.expires_at is not None:
        state = f"valid for {format_duration(token.expires_at - now)}"
    # None is no limit; at 0 the state already says that the token is used up.
    if token.uses_left:
        state += f", {token.uses_left} uses left"
    node = token.node_id or ""
    person = token.person or ""
    return (token.id, token.role, token.note, person, node, _ago(token.used_at, now), state)


def _ago(at: float | None, now: float) -> str:
    from fleet_smi.model.units import format_duration

    return "never" if at is None else f"{format_duration(max(0.0, now - at))} ago"


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
