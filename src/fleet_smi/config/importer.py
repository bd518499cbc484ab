"""Importer of other systems' settings: collects values, and notes on what was skipped and why."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from fleet_smi.config.table import SETTINGS
from fleet_smi.config.template import to_toml_literal
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

_SETTINGS_BY_NAME = {setting.name: setting for setting in SETTINGS}
_MAX_LENGTH = 300
HostType = Literal["node_info", "ssh", "pull"]


class ImportNote(Struct, frozen=True):
    """The outcome for one part of an imported file."""

    file: str
    imported: bool
    text: str


class SettingsImporter:
    """Collects valid settings of several files; `host_type` is what a hosts.txt lists."""

    def __init__(self, host_type: HostType = "node_info") -> None:
        self.host_type = host_type
        self.files: list[str] = []
        self.notes: list[ImportNote] = []
        self._values: dict[str, Any] = {}

    def start_file(self, file: str, system: str) -> None:
        """Make this the file of the following notes."""
        self.files.append(f"{sanitize_text(file, _MAX_LENGTH)} ({system})")

    def set_value(self, source: str, name: str, value: Any) -> None:
        """Set a setting, unless the value is invalid or another file has set another one."""
        try:
            _SETTINGS_BY_NAME[name].value_type.parse(value)
        except (ValueError, TypeError, UsageError) as error:
            self.skip(source, f"{format_for_error(value)} {error}")
            return
        if self._values.setdefault(name, value) != value:
            # The first file wins; a second one that agrees is noted as imported.
            self.skip(source, f"{name} is {to_toml_literal(self._values[name])} already")
        else:
            self._note(f"{source} as {name} = {to_toml_literal(value)}", imported=True)

    def extend_list(self, source: str, name: str, items: Iterable[str]) -> None:
        """Add to a setting that is a list; skip invalid and repeated items only."""
        values: list[str] = self._values.get(name, [])
        before = len(values)
        for item in items:
            if item in values:
                self.skip(f"{source}, {format_for_error(item)}", "listed already")
            elif self._is_valid(source, name, item):
                values.append(item)
        if len(values) > before:
            self._values[name] = values
            self._note(f"{source} in {name}: {', '.join(values[before:])}", imported=True)

    def _is_valid(self, source: str, name: str, item: str) -> bool:
        try:
            _SETTINGS_BY_NAME[name].value_type.parse([item])
        except (ValueError, TypeError, UsageError) as error:
            self.skip(source, str(error))
            return False
        return True

    def note_no_change(self, source: str, reason: str) -> None:
        """Note a part that is imported by leaving a default as it is, and why."""
        self._note(f"{source}: {reason}", imported=True)

    def skip(self, source: str, reason: str) -> None:
        """Note a part that is not imported, and why."""
        self._note(f"{source}: {reason}", imported=False)

    def _note(self, text: str, *, imported: bool) -> None:
        self.notes.append(ImportNote(self.files[-1], imported, sanitize_text(text, _MAX_LENGTH)))

    def to_toml(self) -> str:
        """Render the settings as a fleet-smi.toml."""
        head = f"# Settings of fleet-smi, imported from {', '.join(self.files)}.\n"
        sections = dict.fromkeys(setting.section for setting in SETTINGS)
        return head + "".join(self._section(section) for section in sections)

    def _section(self, section: str) -> str:
        lines = [
            f"{setting.key} = {to_toml_literal(self._values[setting.name])}\n"
            for setting in SETTINGS
            if setting.section == section and setting.name in self._values
        ]
        return f"\n[{section}]\n{''.join(lines)}" if lines else ""
