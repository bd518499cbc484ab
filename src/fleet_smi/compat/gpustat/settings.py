"""The command line of gpustat-web: hosts that it asks over ssh, and a port it serves them on."""

import re
import shlex
from collections.abc import Iterator

from fleet_smi.compat.hosts import to_ssh_target
from fleet_smi.config.importer import SettingsImporter
from fleet_smi.config.value_types import format_for_error
from fleet_smi.errors import UsageError

SYSTEM_NAME = "gpustat-web"
_CALL = re.compile(r"(?:^|[\s/=])gpustat-web(?=\s|$)(.*)")
_SETTINGS = {"--ssl-certfile": "hub.tls_cert", "--ssl-keyfile": "hub.tls_key"}
_VALUED = ("--port", "--ssh-port", "--interval", "--exec", *_SETTINGS)
_REASONS = {
    "--port": "the hub listens for this machine alone until hub.listen says more",
    "--exec": "the hub asks nvidia-smi itself, by one fixed command",
    **dict.fromkeys(_SETTINGS, "a certificate and its key belong together: one is missing"),
    "--no-verify-host": "host keys are always verified",
    "--verbose": "the hub logs what matters by itself",
}

CommandLineOption = tuple[str, str]


def matches(name: str, text: str) -> bool:
    """Whether it is called there, and not in a comment."""
    return any(find_arguments(line) is not None for line in text.splitlines())


def find_arguments(line: str) -> str | None:
    """What gpustat-web is called with there, if it is."""
    call = _CALL.search(line.partition("#")[0])
    return None if call is None else call[1]


def import_file(text: str, importer: SettingsImporter) -> None:
    """The hosts become ones to log in at."""
    for number, line in enumerate(text.splitlines(), 1):
        words = find_arguments(line)
        if words is not None:
            import_command_line("", words, importer)
        elif line.partition("#")[0].strip():
            importer.skip(f"line {number}", "it does not call gpustat-web")


def import_command_line(location: str, arguments: str, importer: SettingsImporter) -> None:
    """Take over what one call says; `where` stands before each remark on it."""
    options, hosts = _sorted_out(arguments)
    given = dict(options)
    logins = _logins(hosts, given.get("--ssh-port"), f"{location}hosts", importer)
    importer.extend_list(f"{location}hosts", "hub.ssh", logins)
    whole = all(name in given for name in _SETTINGS)
    for name, value in options:
        if name in _SETTINGS and whole:
            importer.set_value(f"{location}{name}", _SETTINGS[name], value)
        elif name == "--interval":
            importer.set_value(f"{location}{name}", "hub.ssh_interval", f"{value}s")
        elif name != "--ssh-port":
            importer.skip(f"{location}{name}", _REASONS.get(name, "gpustat-web has no such flag"))


def _sorted_out(words: str) -> tuple[list[CommandLineOption], list[str]]:
    options: list[CommandLineOption] = []
    hosts: list[str] = []
    try:
        rest = iter(shlex.split(words))
    except ValueError as error:
        raise UsageError(f"the arguments of gpustat-web cannot be read: {error}") from None
    for word in rest:
        if word.startswith("-"):
            options.append(_option(word, rest))
        else:
            hosts.append(word)
    return options, hosts


def _option(word: str, rest: Iterator[str]) -> CommandLineOption:
    name, equals, value = word.partition("=")
    return name, value if equals or name not in _VALUED else next(rest, "")


def _logins(hosts: list[str], port: str | None, what: str, into: SettingsImporter) -> list[str]:
    logins = []
    for host in hosts:
        try:
            logins.append(to_ssh_target(host, port=port))
        except ValueError as error:
            into.skip(what, f"{format_for_error(host)} {error}")
    return logins
