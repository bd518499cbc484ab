"""A copy of the system's ssh_config that means the same when another file includes it.

A relative `Include` in the system's file is below /etc/ssh. Below a file that is given by `-F`, as
ours is, ssh would look for it in ~/.ssh.
"""

import secrets
from pathlib import Path

from fleet_smi.hub.ssh_hosts import SYSTEM_CONFIG, match_files, parse_line


def copy_system_config(path: str, folder: Path, system_config: str = SYSTEM_CONFIG) -> str:
    """The path to include instead of `path`: a copy in `folder` if it is the system's."""
    return _Copier(Path(path), folder).copy(Path(path)) if path == system_config else path


class _Copier:
    """Copies a file, and those that it includes, with absolute paths; each once."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._relative_to = str(config.parent)
        self._folder = folder
        self._copies: dict[Path, Path] = {}

    def copy(self, path: Path) -> str:
        """The path of the copy, or the original if nothing is included or it cannot be read."""
        if path in self._copies:  # ssh itself ends a circle
            return str(self._copies[path])
        try:
            lines = path.read_text("utf-8", "surrogateescape").splitlines()
        except OSError:
            return str(path)
        parsed = [parse_line(line) for line in lines]
        if not any(each and each[0] == "include" for each in parsed):
            return str(path)
        copy = self._copies[path] = self._folder / f"system-{secrets.token_hex(4)}"
        changed = [
            self._include(each[1]) if each and each[0] == "include" else line
            for line, each in zip(lines, parsed, strict=True)
        ]
        text = "".join(f"{line}\n" for line in changed)
        copy.write_text(text, "utf-8", "surrogateescape")
        return str(copy)

    def _include(self, patterns: list[str]) -> str:
        files = [file for pattern in patterns for file in match_files(pattern, self._relative_to)]
        copies = [f'"{self.copy(file)}"' for file in files]
        return " ".join(["Include", *copies]) if copies else ""
