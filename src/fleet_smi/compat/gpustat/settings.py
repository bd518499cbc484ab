"""Settings import of gpustat-web's command line: hosts polled over ssh, and a port."""

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
_OPTIONS_WITH_VALUE = ("--port", "--ssh-port", "--interval", "--exec", *_SETTINGS)
_REASONS = {
    "--port": "the hub listens on this machine only, unless hub.listen is set",
    "--exec": "the hub runs nvidia-smi itself, by one fixed command",
    **dict.fromkeys(_SETTINGS, "certificate and key are both needed: one is missing"),
    "--no-verify-host": "host keys are always verified",
    "--verbose": "the hub has no verbose mode",
}

CommandLineOption = tuple[str, str]


def matches(name: str, text: str) -> bool:
    """Whether the text calls gpustat-web outside of a comment."""
    return any(find_arguments(line) is not None for line in text.splitlines())


def find_arguments(line: str) -> str | None:
    """Return the arguments of a call of gpustat-web; `None` if there is none."""
    call = _CALL.search(line.partition("#")[0])
    return None if call is None else call[1]


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import the hosts as ones to poll over ssh."""
    for number, line in enumerate(text.splitlines(), 1):
        arguments = find_arguments(line)
        if arguments is not None:
            import_command_line("", arguments, importer)
        elif line.partition("#")[0].strip():
            importer.skip(f"line {number}", "it does not call gpustat-web")


def import_command_line(location: str, arguments: str, importer: SettingsImporter) -> None:
    """Import one call; `location` is the prefix of its notes."""
    options, hosts = _parse(arguments)
    given = dict(options)
    targets = _ssh_targets(hosts, given.get("--ssh-port"), f"{location}hosts", importer)
    importer.extend_list(f"{location}hosts", "hub.ssh", targets)
    # Half a pair would be an invalid setting: the hub would refuse to start.
    has_tls = all(name in given for name in _SETTINGS)
    for name, value in options:
        if name in _SETTINGS and has_tls:
            importer.set_value(f"{location}{name}", _SETTINGS[name], value)
        elif name == "--interval":
            importer.set_value(f"{location}{name}", "hub.ssh_interval", f"{value}s")
        elif name != "--ssh-port":
            importer.skip(f"{location}{name}", _REASONS.get(name, "gpustat-web has no such flag"))


def _parse(arguments: str) -> tuple[list[CommandLineOption], list[str]]:
    options: list[CommandLineOption] = []
    hosts: list[str] = []
    try:
        rest = iter(shlex.split(arguments))
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
    # As in argparse: `--port=80` and `--port 80` are the same.
    return name, value if equals or name not in _OPTIONS_WITH_VALUE else next(rest, "")


def _ssh_targets(
    hosts: list[str], port: str | None, source: str, importer: SettingsImporter
) -> list[str]:
    targets = []
    for host in hosts:
        try:
            targets.append(to_ssh_target(host, port=port))
        except ValueError as error:
            importer.skip(source, f"{format_for_error(host)} {error}")
    return targets
