"""Pseudonyms: the same replacement for the same private text, within one capture."""

from collections import Counter


class Pseudonyms:
    """Numbers private texts by kind, as they are met: nothing can be reversed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()

    @property
    def replaced(self) -> dict[str, int]:
        """How many different texts of each kind were replaced."""
        return dict(sorted(self._counts.items()))

    def replace(self, kind: str, text: str) -> str:
        """Return the pseudonym of a text; upper and lower case are the same text."""
        key = kind, text.lower()
        known = self._known.get(key)
        if known is None:
            self._counts[kind] += 1
            known = self._known[key] = _form(kind, self._counts[kind], len(text))
        return known

    def replace_number(self, kind: str, number: int) -> int:
        """Return the pseudonym of a number, such as a user id."""
        return int(self.replace(kind, str(number)))


def _form(kind: str, number: int, length: int) -> str:
    """Return a pseudonym that parsers accept as what it stands for."""
    match kind:
        case "uuid":
            return f"5c5c5c5c-0000-4000-8000-{number:012x}"
        case "ipv4":
            return f"192.0.2.{number}" if number < 255 else f"198.18.{number >> 8}.{number & 255}"
        case "ipv6":
            return f"2001:db8::{number:x}"
        case "mac":
            return f"02:00:00:00:{number >> 8 & 255:02x}:{number & 255:02x}"
        case "email":
            return f"user{number}@example.org"
        case "path":
            return f"/path-{number}"
        case "uid":
            return str(10_000 + number)
        case "id":
            return f"{number:x}".zfill(length)
        case "serial":
            return f"{number}".zfill(length)
        case _:
            return f"{kind}-{number}"
