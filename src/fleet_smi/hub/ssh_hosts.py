"""The hosts to poll over ssh: from a list, a hosts file, or patterns of names in ssh_config."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import partial
from pathlib import Path

from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text

# Nothing that ssh takes for an option (a leading dash), nor a metacharacter of a shell: a
# ProxyCommand in the user's ssh_config may pass the name to one.
_PART = r"[A-Za-z0-9_.:\[\]+][A-Za-z0-9_.:\[\]+-]{0,254}"
_HOST = re.compile(rf"(?:{_PART}@)?{_PART}")
# A keyword and its arguments, separated by blanks or by one equals sign.
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_ARGUMENT = re.compile(r'"([^"]*)"|(\S+)')
# The limit of OpenSSH; it also ends circular includes.
_MAX_INCLUDE_DEPTH = 16

ReadInclude = Callable[[str], Iterable[str]]
"""Read the files that the argument of `Include` matches; return their texts."""
USER_CONFIG, SYSTEM_CONFIG = "~/.ssh/config", "/etc/ssh/ssh_config"


def validate_host(name: str) -> str:
    """Return a valid `host`, `user@host`, `host:port` or address; raise `UsageError` otherwise."""
    if not _HOST.fullmatch(name):
        raise UsageError(
            f"{sanitize_text(name, 80)!r} is not a host: give a name, user@name or name:port"
        )
    return name


def read_hosts_file(path: str) -> list[str]:
    """The hosts in a file, one per line; # starts a comment, blank lines are skipped.

    Raise `UsageError` where it cannot be read or a line is not a host.
    """
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
    """The hosts without duplicates; a name with * or ? expands to its matches in ssh_config.

    Raise `UsageError` for an invalid name, or a pattern without a match.
    """
    hosts: dict[str, None] = {}
    for name in names:
        expanded = _matching(name, config_path) if _is_pattern(name) else [name]
        hosts.update(dict.fromkeys(map(validate_host, expanded)))
    return list(hosts)


def _matching(pattern: str, config_path: str | None) -> list[str]:
    files = [config_path] if config_path else [USER_CONFIG, SYSTEM_CONFIG]
    # Patterns of ssh have no character classes: a bracket belongs to an IPv6 address.
    matches = re.compile(translate(pattern.replace("[", "[[]"))).fullmatch
    config_hosts = (
        host
        for file in files
        for text in _read_files(file, include_folder(file))
        for host in parse_config_hosts(text, partial(_read_files, folder=include_folder(file)))
    )
    hosts = [host for host in config_hosts if matches(host) and _HOST.fullmatch(host)]
    if not hosts:
        raise UsageError(f"no Host in {' or '.join(files)} matches {sanitize_text(pattern, 80)!r}")
    return hosts


def parse_config_hosts(text: str, include: ReadInclude, depth: int = 0) -> list[str]:
    """The names of hosts in an ssh_config, in order; patterns and negations are skipped."""
    hosts: list[str] = []
    for keyword, arguments in _lines(text):
        if keyword == "host":
            hosts += [
                argument
                for argument in arguments
                if not _is_pattern(argument) and not argument.startswith("!")
            ]
        elif keyword == "include" and depth < _MAX_INCLUDE_DEPTH:
            for included in (text for argument in arguments for text in include(argument)):
                hosts += parse_config_hosts(included, include, depth + 1)
    return hosts


def _lines(text: str) -> Iterable[tuple[str, list[str]]]:
    for line in text.splitlines():
        if parsed := parse_line(line):
            yield parsed


def parse_line(line: str) -> tuple[str, list[str]] | None:
    """The keyword of a line, in lower case, and its arguments; `None` if it has none."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    arguments = [quoted or bare for quoted, bare in _ARGUMENT.findall(match[2])]
    comment = next(
        (at for at, argument in enumerate(arguments) if argument[:1] == "#"), len(arguments)
    )
    return match[1].lower(), arguments[:comment]


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def include_folder(config_path: str) -> str:
    """The folder of relative paths in `Include`: ~/.ssh, but /etc/ssh for the system's own file."""
    return str(Path(config_path).parent) if config_path == SYSTEM_CONFIG else "~/.ssh"


def match_files(pattern: str, folder: str) -> list[Path]:
    """The files that a path pattern of ssh_config matches, in the order in which ssh reads them."""
    path = Path(pattern).expanduser()
    path = path if path.is_absolute() else Path(folder).expanduser() / path
    return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


def _read_files(pattern: str, folder: str) -> Iterable[str]:
    """The texts of the files that a path pattern of ssh_config matches, if readable."""
    for file in match_files(pattern, folder):
        try:
            yield file.read_text("utf-8", "replace")
        except OSError:
            continue
