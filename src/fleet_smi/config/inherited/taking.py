"""What is taken over from other systems' files, what is not, and why."""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from fleet_smi.config.kinds import shown
from fleet_smi.config.sample import literal
from fleet_smi.config.table import SETTINGS
from fleet_smi.errors import UsageError
from fleet_smi.model.text import clean

_NAMED = {setting.name: setting for setting in SETTINGS}
_LONGEST = 300
HostsAs = Literal["node_info", "ssh", "pull"]


class Remark(Struct, frozen=True):
    """What became of one part of a file."""

    file: str
    taken: bool
    words: str


class Taking:
    """Settings as they are collected, each of them sound; `hosts_as` says what hosts.txt lists."""

    def __init__(self, hosts_as: HostsAs = "node_info") -> None:
        self.hosts_as = hosts_as
        self.files: list[str] = []
        self.remarks: list[Remark] = []
        self._values: dict[str, Any] = {}

    def begin(self, file: str, system: str) -> None:
        """From here on the remarks are about this file."""
        self.files.append(f"{clean(file, _LONGEST)} ({system})")

    def take(self, what: str, name: str, value: Any) -> None:
        """Set one setting, unless it makes no sense or another file has set it otherwise."""
        try:
            _NAMED[name].kind.read(value)
        except (ValueError, TypeError, UsageError) as error:
            self.leave(what, f"{shown(value)} {error}")
            return
        if self._values.setdefault(name, value) != value:
            self.leave(what, f"{name} is {literal(self._values[name])} already")
        else:
            self._say(f"{what} as {name} = {literal(value)}", taken=True)

    def take_all(self, what: str, name: str, items: Iterable[str]) -> None:
        """Add to a setting that is a list; what makes no sense there is left, the rest is not."""
        known: list[str] = self._values.get(name, [])
        before = len(known)
        for item in items:
            if item in known:
                self.leave(f"{what}, {shown(item)}", "it is there already")
            elif self._is_sound(what, name, item):
                known.append(item)
        if len(known) > before:
            self._values[name] = known
            self._say(f"{what} in {name}: {', '.join(known[before:])}", taken=True)

    def _is_sound(self, what: str, name: str, item: str) -> bool:
        try:
            _NAMED[name].kind.read([item])
        except (ValueError, TypeError, UsageError) as error:
            self.leave(what, str(error))
            return False
        return True

    def take_as_nothing(self, what: str, why: str) -> None:
        """Tell what is taken over by setting nothing, and why."""
        self._say(f"{what}: {why}", taken=True)

    def leave(self, what: str, why: str) -> None:
        """Tell what is not taken over, and why."""
        self._say(f"{what}: {why}", taken=False)

    def _say(self, words: str, *, taken: bool) -> None:
        self.remarks.append(Remark(self.files[-1], taken, clean(words, _LONGEST)))

    def toml(self) -> str:
        """The settings as a file of ours."""
        head = f"# Settings of fleet-smi, taken over from {', '.join(self.files)}.\n"
        sections = dict.fromkeys(setting.section for setting in SETTINGS)
        return head + "".join(self._section(section) for section in sections)

    def _section(self, section: str) -> str:
        own = [
            f"{setting.key} = {literal(self._values[setting.name])}\n"
            for setting in SETTINGS
            if setting.section == section and setting.name in self._values
        ]
        return f"\n[{section}]\n{''.join(own)}" if own else ""
