"""What is taken over from other systems' files, what is not, and why."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from fleet_smi.config.table import SETTINGS
from fleet_smi.config.template import to_toml_literal
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

_NAMED = {setting.name: setting for setting in SETTINGS}
_LONGEST = 300
HostType = Literal["node_info", "ssh", "pull"]


class ImportNote(Struct, frozen=True):
    """What became of one part of a file."""

    file: str
    imported: bool
    text: str


class SettingsImporter:
    """Settings as they are collected, each of them sound; `hosts_as` says what hosts.txt lists."""

    def __init__(self, host_type: HostType = "node_info") -> None:
        self.host_type = host_type
        self.files: list[str] = []
        self.notes: list[ImportNote] = []
        self._values: dict[str, Any] = {}

    def start_file(self, file: str, system: str) -> None:
        """From here on the remarks are about this file."""
        self.files.append(f"{sanitize_text(file, _LONGEST)} ({system})")

    def set_value(self, source: str, name: str, value: Any) -> None:
        """Set one setting, unless it makes no sense or another file has set it otherwise."""
        try:
            _NAMED[name].value_type.parse(value)
        except (ValueError, TypeError, UsageError) as error:
            self.skip(source, f"{format_for_error(value)} {error}")
            return
        if self._values.setdefault(name, value) != value:
            self.skip(source, f"{name} is {to_toml_literal(self._values[name])} already")
        else:
            self._say(f"{source} as {name} = {to_toml_literal(value)}", taken=True)

    def extend_list(self, source: str, name: str, items: Iterable[str]) -> None:
        """Add to a setting that is a list; what makes no sense there is left, the rest is not."""
        known: list[str] = self._values.get(name, [])
        before = len(known)
        for item in items:
            if item in known:
                self.skip(f"{source}, {format_for_error(item)}", "it is there already")
            elif self._is_sound(source, name, item):
                known.append(item)
        if len(known) > before:
            self._values[name] = known
            self._say(f"{source} in {name}: {', '.join(known[before:])}", taken=True)

    def _is_sound(self, what: str, name: str, item: str) -> bool:
        try:
            _NAMED[name].value_type.parse([item])
        except (ValueError, TypeError, UsageError) as error:
            self.skip(what, str(error))
            return False
        return True

    def note_no_change(self, source: str, reason: str) -> None:
        """Tell what is taken over by setting nothing, and why."""
        self._say(f"{source}: {reason}", taken=True)

    def skip(self, source: str, reason: str) -> None:
        """Tell what is not taken over, and why."""
        self._say(f"{source}: {reason}", taken=False)

    def _say(self, words: str, *, taken: bool) -> None:
        self.notes.append(ImportNote(self.files[-1], taken, sanitize_text(words, _LONGEST)))

    def to_toml(self) -> str:
        """The settings as a file of ours."""
        head = f"# Settings of fleet-smi, taken over from {', '.join(self.files)}.\n"
        sections = dict.fromkeys(setting.section for setting in SETTINGS)
        return head + "".join(self._section(section) for section in sections)

    def _section(self, section: str) -> str:
        own = [
            f"{setting.key} = {to_toml_literal(self._values[setting.name])}\n"
            for setting in SETTINGS
            if setting.section == section and setting.name in self._values
        ]
        return f"\n[{section}]\n{''.join(own)}" if own else ""
