"""Which hosts are asked over ssh: a list, a hosts.txt, or patterns of names in ssh_config."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from pathlib import Path

from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

# Nothing that ssh takes for an option, nor anything that means something to a shell: a
# ProxyCommand of the user's may hand the name to one.
_PART = r"[A-Za-z0-9_.:\[\]+][A-Za-z0-9_.:\[\]+-]{0,254}"
_HOST = re.compile(rf"(?:{_PART}@)?{_PART}")
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_MOST_NESTED = 16

ReadInclude = Callable[[str], Iterable[str]]
"""The texts of the files that the word behind `Include` stands for."""


def validate_host(name: str) -> str:
    """The name, if it can be one: `host`, `user@host`, `host:port` or an address."""
    if not _HOST.fullmatch(name):
        raise UsageError(
            f"{sanitize_text(name, 80)!r} is no host: give a name, user@name or name:port"
        )
    return name


def read_hosts_file(path: str) -> list[str]:
    """The hosts in a file, one a line; what follows # is a comment, blank lines do not count."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    hosts: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        if name := line.partition("#")[0].strip():
            try:
                hosts[validate_host(name)] = None
            except UsageError as error:
                raise UsageError(f"{path}, line {number}: {error}") from None
    return list(hosts)


def expand_hosts(names: Sequence[str], config_path: str | None = None) -> list[str]:
    """The hosts that are meant, each once; a name with * or ? stands for those in ssh_config."""
    hosts: dict[str, None] = {}
    for name in names:
        found = _matching(name, config_path) if _is_pattern(name) else [name]
        hosts.update(dict.fromkeys(map(validate_host, found)))
    return list(hosts)


def _matching(pattern: str, config_path: str | None) -> list[str]:
    files = [config_path] if config_path else ["~/.ssh/config", "/etc/ssh/ssh_config"]
    matches = re.compile(translate(pattern.replace("[", "[[]"))).fullmatch
    listed = (
        host for file in files for text in _texts(file) for host in parse_config_hosts(text, _texts)
    )
    found = [host for host in listed if matches(host) and _HOST.fullmatch(host)]
    if not found:
        raise UsageError(f"no Host in {' or '.join(files)} is like {sanitize_text(pattern, 80)!r}")
    return found


def parse_config_hosts(text: str, include: ReadInclude, depth: int = 0) -> list[str]:
    """The names of hosts in an ssh_config, in order; patterns there name no host."""
    hosts: list[str] = []
    for keyword, words in _lines(text):
        if keyword == "host":
            hosts += [word for word in words if not _is_pattern(word) and not word.startswith("!")]
        elif keyword == "include" and depth < _MOST_NESTED:
            for included in (text for word in words for text in include(word)):
                hosts += parse_config_hosts(included, include, depth + 1)
    return hosts


def _lines(text: str) -> Iterable[tuple[str, list[str]]]:
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            words = [quoted or bare for quoted, bare in _WORD.findall(match[2])]
            comment = next((at for at, word in enumerate(words) if word[:1] == "#"), len(words))
            yield match[1].lower(), words[:comment]


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _texts(word: str) -> Iterable[str]:
    """What lies in the files that a word of ssh_config stands for; what cannot be read is left."""
    path = Path(word).expanduser()
    path = path if path.is_absolute() else Path("~/.ssh").expanduser() / path
    for file in sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor)))):
        try:
            yield file.read_text("utf-8", "replace")
        except OSError:
            continue
