"""The parts of an answer over ssh, cut out from whatever else the node prints around them."""

from msgspec import Struct

from fleet_smi.wire.cli_text import parse_number


class ScriptSection(Struct, frozen=True, gc=False):
    """One part: its name, the node's seconds since boot when it began, and its text."""

    name: str
    uptime_seconds: float
    text: str


class ScriptOutput:
    """All parts in their order."""

    def __init__(self, sections: list[ScriptSection]) -> None:
        self.sections = sections
        self._texts = {part.name: part.text for part in reversed(sections)}
        self._times = {part.name: part.uptime_seconds for part in reversed(sections)}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str:
        """The part of that name; empty where there is none."""
        return self._texts.get(name, "").strip()

    def uptime_at(self, name: str) -> float:
        """When the part began, in seconds since boot; what is not there would be last."""
        return self._times.get(name, self.sections[-1].uptime_seconds)

    def seconds_between(self, first: str, last: str) -> float:
        """How long it took from the one part to the other."""
        return round(max(0.0, self.uptime_at(last) - self.uptime_at(first)), 2)


def parse_sections(body: bytes, marker: str) -> ScriptOutput:
    """Cut the answer at its marks. What stands in front of the first is a banner, or noise."""
    # The names and commands of processes may be any bytes: nothing of them is lost.
    text = body.decode("utf-8", "surrogateescape")
    pieces = text.split(f"\n{marker} ")[1:]
    return ScriptOutput([part for piece in pieces if (part := _part(piece))])


def _part(piece: str) -> ScriptSection | None:
    heading, _, text = piece.partition("\n")
    name, _, stamp = heading.partition(" ")
    at = parse_number(stamp)
    return None if at is None else ScriptSection(name, at, text)
