"""The parts of an answer over ssh, cut out from whatever else the node prints around them."""

from msgspec import Struct

from fleet_smi.wire.printed import number


class Part(Struct, frozen=True, gc=False):
    """One part: its name, the node's seconds since boot when it began, and its text."""

    name: str
    at: float
    text: str


class Answer:
    """All parts in their order."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._texts = {part.name: part.text for part in reversed(parts)}
        self._times = {part.name: part.at for part in reversed(parts)}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str:
        """The part of that name; empty where there is none."""
        return self._texts.get(name, "").strip()

    def at(self, name: str) -> float:
        """When the part began, in seconds since boot; what is not there would be last."""
        return self._times.get(name, self.parts[-1].at)

    def seconds(self, first: str, then: str) -> float:
        """How long it took from the one part to the other."""
        return round(max(0.0, self.at(then) - self.at(first)), 2)


def read_parts(body: bytes, mark: str) -> Answer:
    """Cut the answer at its marks. What stands in front of the first is a banner, or noise."""
    # The names and commands of processes may be any bytes: nothing of them is lost.
    text = body.decode("utf-8", "surrogateescape")
    pieces = text.split(f"\n{mark} ")[1:]
    return Answer([part for piece in pieces if (part := _part(piece))])


def _part(piece: str) -> Part | None:
    heading, _, text = piece.partition("\n")
    name, _, stamp = heading.partition(" ")
    at = number(stamp)
    return None if at is None else Part(name, at, text)
