"""What one source says of the settings: values with their origin, and what is wrong with it."""

import os
from typing import Any

from msgspec import Struct

from fleet_smi.config.table import MUTUALLY_EXCLUSIVE, Setting
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

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


DEFAULT_ORIGIN = Origin("default")


class SettingValue(Struct, frozen=True):
    """A value, and where it comes from."""

    value: Any
    origin: Origin


class SettingProblem(Struct, frozen=True):
    """What is wrong, and where."""

    origin: Origin
    message: str


class SettingsLayer:
    """All values of one source, or of all of them joined."""

    def __init__(self) -> None:
        self.values: dict[str, SettingValue] = {}
        self.problems: list[SettingProblem] = []

    def add_problem(self, origin: Origin, message: str) -> None:
        """Note what is wrong; the rest is still read."""
        self.problems.append(SettingProblem(origin, message))

    def raise_if_invalid(self) -> None:
        """Raise `UsageError` with the first thing that is wrong, if anything is."""
        if self.problems:
            first = self.problems[0]
            raise UsageError(f"{first.origin.short}: {first.message}")

    def merge(self, overrides: "SettingsLayer") -> None:
        """Let a stronger source have its say."""
        self.problems += overrides.problems
        for pair in MUTUALLY_EXCLUSIVE:
            self._settle(overrides, *pair)
        self.values.update(overrides.values)

    def _settle(
        self, stronger: "SettingsLayer", one: tuple[str, ...], other: tuple[str, ...]
    ) -> None:
        said = [[name for name in names if name in stronger.values] for names in (one, other)]
        if said[0] and said[1]:
            words = f"{said[1][0]} and {said[0][0]} cannot both be set: choose one"
            self.add_problem(stronger.values[said[1][0]].origin, words)
        for name in (*(other if said[0] else ()), *(one if said[1] else ())):
            self.values[name] = SettingValue(None, DEFAULT_ORIGIN)


def parse_setting(setting: Setting, value: Any, origin: Origin, layer: SettingsLayer) -> None:
    """Read one value into the layer, or note what is wrong with it."""
    try:
        layer.values[setting.name] = SettingValue(setting.value_type.parse(value), origin)
    except (ValueError, TypeError, OverflowError, RecursionError, UsageError) as error:
        said = "…" if setting.is_secret else format_for_error(value)
        layer.add_problem(
            origin, f"{setting.key} = {said}: {sanitize_text(str(error), _LONGEST_REASON)}"
        )
