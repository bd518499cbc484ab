"""Layers of settings: the values of one source with their origin, its problems, and merging."""

import os
from typing import Any

from msgspec import Struct

from fleet_smi.config.setting_row import Setting
from fleet_smi.config.table import MUTUALLY_EXCLUSIVE
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

_MAX_REASON = 200


class Origin(Struct, frozen=True):
    """Where a value comes from: a file and line, a variable, a flag, or the default."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def short(self) -> str:
        """The same, with the base name of a file."""
        return str(Origin(os.path.basename(self.source), self.line))


DEFAULT_ORIGIN = Origin("default")


class SettingValue(Struct, frozen=True):
    """A value, and where it comes from."""

    value: Any
    origin: Origin


class SettingProblem(Struct, frozen=True):
    """An invalid setting: the error and where it was found."""

    origin: Origin
    message: str


class SettingsLayer:
    """All values of one source, or of several merged."""

    def __init__(self) -> None:
        self.values: dict[str, SettingValue] = {}
        self.problems: list[SettingProblem] = []

    def add_problem(self, origin: Origin, message: str) -> None:
        """Add a problem; the rest is still read."""
        self.problems.append(SettingProblem(origin, message))

    def raise_if_invalid(self) -> None:
        """Raise `UsageError` with the first problem, if there is one."""
        if self.problems:
            first = self.problems[0]
            raise UsageError(f"{first.origin.short}: {first.message}")

    def merge(self, overrides: "SettingsLayer") -> None:
        """Override these values with those of a stronger source."""
        self.problems += overrides.problems
        # Before the update: an alternative in a weaker layer is unset, one in the same layer is an
        # error.
        for pair in MUTUALLY_EXCLUSIVE:
            self._resolve_exclusive(overrides, *pair)
        self.values.update(overrides.values)

    def _resolve_exclusive(
        self, stronger: "SettingsLayer", one: tuple[str, ...], other: tuple[str, ...]
    ) -> None:
        given = [[name for name in names if name in stronger.values] for names in (one, other)]
        if given[0] and given[1]:
            message = f"{given[1][0]} and {given[0][0]} cannot both be set: choose one"
            self.add_problem(stronger.values[given[1][0]].origin, message)
        # A token on the command line must not be mixed with a token file of a settings file.
        for name in (*(other if given[0] else ()), *(one if given[1] else ())):
            self.values[name] = SettingValue(None, DEFAULT_ORIGIN)


def parse_setting(setting: Setting, value: Any, origin: Origin, layer: SettingsLayer) -> None:
    """Parse one value into the layer, or add the problem with it."""
    try:
        layer.values[setting.name] = SettingValue(setting.value_type.parse(value), origin)
    except (ValueError, TypeError, OverflowError, RecursionError, UsageError) as error:
        # Not even the value of a secret that is wrong: it may be the right one with a typing error.
        shown = "…" if setting.is_secret else format_for_error(value)
        layer.add_problem(
            origin, f"{setting.key} = {shown}: {sanitize_text(str(error), _MAX_REASON)}"
        )
