"""What one source says of the settings: values with their origin, and what is wrong with it."""

import os
from typing import Any

from msgspec import Struct

from fleet_smi.config.kinds import shown
from fleet_smi.config.table import RIVALS, Setting
from fleet_smi.errors import UsageError
from fleet_smi.model.text import clean

_LONGEST_REASON = 200


class Origin(Struct, frozen=True):
    """Where a value comes from: a file and line, a variable, a flag, or the default."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def short(self) -> str:
        """The same, with a file by its last name alone."""
        return str(Origin(os.path.basename(self.source), self.line))


DEFAULT = Origin("default")


class Found(Struct, frozen=True):
    """A value, and where it comes from."""

    value: Any
    origin: Origin


class Problem(Struct, frozen=True):
    """What is wrong, and where."""

    origin: Origin
    words: str


class Layer:
    """All values of one source, or of all of them joined."""

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}
        self.problems: list[Problem] = []

    def refuse(self, origin: Origin, words: str) -> None:
        """Note what is wrong; the rest is still read."""
        self.problems.append(Problem(origin, words))

    def require_sound(self) -> None:
        """Raise `UsageError` with the first thing that is wrong, if anything is."""
        if self.problems:
            first = self.problems[0]
            raise UsageError(f"{first.origin.short}: {first.words}")

    def cover(self, stronger: "Layer") -> None:
        """Let a stronger source have its say."""
        self.problems += stronger.problems
        for pair in RIVALS:
            self._settle(stronger, *pair)
        self.found.update(stronger.found)

    def _settle(self, stronger: "Layer", one: tuple[str, ...], other: tuple[str, ...]) -> None:
        said = [[name for name in names if name in stronger.found] for names in (one, other)]
        if said[0] and said[1]:
            words = f"{said[1][0]} and {said[0][0]} cannot both be set: choose one"
            self.refuse(stronger.found[said[1][0]].origin, words)
        for name in (*(other if said[0] else ()), *(one if said[1] else ())):
            self.found[name] = Found(None, DEFAULT)


def checked(setting: Setting, value: Any, origin: Origin, layer: Layer) -> None:
    """Read one value into the layer, or note what is wrong with it."""
    try:
        layer.found[setting.name] = Found(setting.kind.read(value), origin)
    except (ValueError, TypeError, OverflowError, RecursionError, UsageError) as error:
        said = "…" if setting.is_secret else shown(value)
        layer.refuse(origin, f"{setting.key} = {said}: {clean(str(error), _LONGEST_REASON)}")
