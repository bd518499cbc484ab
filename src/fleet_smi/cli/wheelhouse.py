"""`fleet-smi hub wheelhouse`: fetch the wheels that nodes with another Python or platform need."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.hub.wheelhouse import WheelFile, Wheelhouse

_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
_PLATFORMS = ("x86_64", "aarch64", "x86_64-musl", "aarch64-musl")
_BINARY = "msgspec"
# Python reads settings files itself since 3.11.
_OLDEST, _TOML = "3.10", "tomli"


def add_parser(actions: Any, add_state: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the subcommand."""
    parser = actions.add_parser(
        "wheelhouse", help="fetch the wheels for nodes with another Python or platform, once"
    )
    add = parser.add_argument
    add("--from", dest="source", metavar="DIR", help="take the wheels of this folder: no internet")
    add("--python", metavar="X.Y,…", default=",".join(_PYTHONS), help="versions (3.10 to 3.14)")
    add(
        "--platform",
        metavar="NAME,…",
        default=",".join(_PLATFORMS),
        help=f"of {', '.join(_PLATFORMS)} (all)",
    )
    add("--list", action="store_true", help="only list what it has")
    add_state(parser)
    parser.set_defaults(handler=run_wheelhouse)


def open_wheelhouse(args: argparse.Namespace) -> "Wheelhouse":
    """The wheelhouse in the hub's state folder."""
    from fleet_smi.hub.wheelhouse import FOLDER, Wheelhouse

    return Wheelhouse(Path(args.settings.hub.state) / FOLDER)


def run_wheelhouse(args: argparse.Namespace) -> None:
    """Fetch what is missing, and list what there is."""
    pythons, platforms = _pythons(args.python), _platforms(args.platform)
    wheelhouse = open_wheelhouse(args)
    wheels = wheelhouse.list_wheels()
    if args.source is not None:
        _copy(wheelhouse, Path(args.source))
    elif not args.list:
        _download(wheelhouse, wheels, pythons, platforms)
    for line in describe(wheelhouse.list_wheels()):
        print(line)


class _WheelName(NamedTuple):
    """The parts of a wheel's file name; one of the Debian package is for several Pythons."""

    project: str
    version: str
    pythons: list[str]
    platforms: list[str]

    def serves(self, requirement: str, python: str, platform: str) -> bool:
        """Whether it is what would be downloaded."""
        project, _, version = requirement.partition("==")
        if project != self.project or version not in ("", self.version):
            return False
        machine, _, libc = platform.partition("-")
        is_there = any(
            each == "any" or (each.endswith(machine) and each.startswith("musl") == bool(libc))
            for each in self.platforms
        )
        return is_there and bool({"py3", f"cp{python.replace('.', '')}"} & set(self.pythons))


def _parse_name(file: str) -> _WheelName:
    project, version, pythons, _, platforms = file.removesuffix(".whl").split("-")
    return _WheelName(project, version, pythons.split("."), platforms.split("."))


def _copy(wheelhouse: "Wheelhouse", folder: Path) -> None:
    try:
        # Fleet-smi itself is always the hub's own.
        files = [file for file in sorted(folder.glob("*.whl")) if file.name[:9] != "fleet_smi"]
        added = [file.name for file in files if wheelhouse.add(file.name, file.read_bytes())]
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
    if not added:
        raise UsageError(f"{folder} has no wheel of msgspec or nvidia-ml-py")


def _download(
    wheelhouse: "Wheelhouse",
    wheels: Sequence["WheelFile"],
    pythons: Sequence[str],
    platforms: Sequence[str],
) -> None:
    import tempfile

    from fleet_smi.node.bindings.pip_download import download_wheel

    # The version that the hub itself has: agent and hub are tested together.
    version = next(wheel.name for wheel in wheels if wheel.name.startswith(_BINARY)).split("-")[1]
    wanted = [(f"{_BINARY}=={version}", python, each) for each in platforms for python in pythons]
    if _OLDEST in pythons:
        wanted.append((_TOML, _OLDEST, platforms[0]))
    known = [_parse_name(wheel.name) for wheel in wheels]
    wanted = [each for each in wanted if not any(wheel.serves(*each) for wheel in known)]
    if not wanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        for requirement, python, platform in wanted:
            where = f"{requirement} for Python {python} on {platform}"
            print(f"fleet-smi: {where}", file=sys.stderr)
            if not download_wheel(requirement, python, platform, folder):
                print(f"fleet-smi: there is no {where}", file=sys.stderr)
        found = sorted(Path(folder).iterdir())
        for file in found:
            wheelhouse.add(file.name, file.read_bytes())
    if not found:
        raise Unmet(
            "no wheel was found: is there internet? Else download them elsewhere and give --from"
        )


def describe(wheels: Iterable["WheelFile"]) -> list[str]:
    """List the stored wheels: one line per project and platform."""
    lines: dict[str, list[str]] = {}
    for wheel in wheels:
        name, version, pythons, platforms = _parse_name(wheel.name)
        title = f"{name.replace('_', '-')} {version}"
        if platforms == ["any"]:
            lines[f"{title}: every Python and platform"] = []
        else:
            machine = re.sub(r"^(many|musl)?linux[_0-9]*_(?=[a-z])", "", platforms[0])
            musl = " (musl)" if platforms[0].startswith("musl") else ""
            shown = [f"{python[2]}.{python[3:]}" for python in pythons]
            lines.setdefault(f"{title} on {machine}{musl}: Python", []).extend(shown)
    return [
        f"{title} {', '.join(sorted(set(found), key=_key))}".strip()
        for title, found in lines.items()
    ]


def _key(version: str) -> int:
    return int(version.rpartition(".")[2])


def _pythons(text: str) -> list[str]:
    versions = text.split(",")
    if not all(re.fullmatch(r"3\.\d{1,2}", version) for version in versions):
        raise UsageError(f"--python: {text!r} is not a list of versions like 3.10,3.11")
    return versions


def _platforms(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(_PLATFORMS):
        raise UsageError(f"--platform: give some of {', '.join(_PLATFORMS)}")
    return names
