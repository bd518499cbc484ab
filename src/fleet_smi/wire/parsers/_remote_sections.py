"""Split the output of the ssh script into sections, without what the node prints around it."""

from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.wire.program_output import parse_int, parse_number

# What `timeout` ends with when it has killed: of coreutils, of busybox.
_KILLED = (124, 137, 143)


class ScriptSection(Struct, frozen=True, gc=False):
    """One section: its name, the node's seconds since boot when it began, and its text."""

    name: str
    uptime_seconds: float
    text: str


class ProgramCall(NamedTuple):
    """One call of a program: the part of the section's name after "@", output and exit code.

    The exit code is `None` when the output breaks off here: the program did not end, and could
    not be killed.
    """

    detail: str
    text: str
    exit_code: int | None

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None or self.exit_code in _KILLED


class ScriptOutput:
    """All sections in their order."""

    def __init__(self, sections: list[ScriptSection]) -> None:
        self.sections = sections
        # Where a name occurs twice, the first one counts: it is the script's own.
        self._texts = {section.name: section.text for section in reversed(sections)}
        self._times = {section.name: section.uptime_seconds for section in reversed(sections)}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str:
        """Return the section of that name, empty where there is none."""
        return self._texts.get(name, "").strip()

    def calls(self, program: str) -> list[ProgramCall]:
        """Return the calls of a program: sections `program` and `program@detail`."""
        calls = []
        # The last section is repeated, so that it has a successor, which is not its exit code.
        for section, following in pairwise([*self.sections, self.sections[-1]]):
            name, _, detail = section.name.partition("@")
            if name == program:
                ended = following.name == "exit_code"
                code = parse_int(following.text.strip()) if ended else None
                calls.append(ProgramCall(detail, section.text, code))
        return calls

    def uptime_at(self, name: str) -> float:
        """Return when the section began, in seconds since boot; the last one's if it is missing."""
        return self._times.get(name, self.sections[-1].uptime_seconds)

    def seconds_between(self, first: str, last: str) -> float:
        """Return the seconds from the start of one section to the start of another."""
        return round(max(0.0, self.uptime_at(last) - self.uptime_at(first)), 2)

    def first_of(self, *names: str) -> str:
        """Return the first of these names that there is a section of, else the last name."""
        return next((name for name in names if name in self), names[-1])


def parse_sections(body: bytes, marker: str) -> ScriptOutput:
    """Split the output at its markers. What precedes the first is a login banner, or noise."""
    # The names and commands of processes may be any bytes: none of them is lost.
    text = body.decode("utf-8", "surrogateescape")
    pieces = text.split(f"\n{marker} ")[1:]
    return ScriptOutput([section for piece in pieces if (section := _section(piece))])


def _section(piece: str) -> ScriptSection | None:
    heading, _, text = piece.partition("\n")
    name, _, uptime = heading.partition(" ")
    seconds = parse_number(uptime)
    return None if seconds is None else ScriptSection(name, seconds, text)
