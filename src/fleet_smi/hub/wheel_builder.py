"""Build a wheel from an installed package: the same bytes for the same files.

So a hub can hand out itself, and what an agent needs, without internet.
"""

import base64
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import (
    Distribution,
    DistributionFinder,
    MetadataPathFinder,
    PackageNotFoundError,
    PackagePath,
    distribution,
)
from pathlib import Path
from typing import NamedTuple

import fleet_smi
from fleet_smi.errors import Unmet

_OWN = "fleet-smi"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can have
_FILE_MODE = 0o100644 << 16
# Files of an installer: it was not in the wheel, or is written again.
_INSTALLERS = ("RECORD", "WHEEL", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
_PURE = "Wheel-Version: 1.0\nGenerator: fleet-smi\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class BuiltWheel(NamedTuple):
    """A wheel's file name and content."""

    name: str
    body: bytes


@cache
def build_own_wheel() -> BuiltWheel:
    """Build the wheel of this fleet-smi, also where it runs from a source tree."""
    package = Path(fleet_smi.__file__).parent
    paths = sorted(path for path in package.rglob("*") if path.is_file())
    contents = {
        f"fleet_smi/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in paths
        if path.suffix != ".pyc" and "__pycache__" not in path.parts
    }
    version = fleet_smi.__version__
    info = {"METADATA": f"Metadata-Version: 2.1\nName: {_OWN}\nVersion: {version}\n".encode()}
    with suppress(PackageNotFoundError):
        installed = distribution(_OWN)
        # That of an editable install may be of a former version.
        info |= _info_files(installed) if installed.version == version else {}
    return _build("fleet_smi", version, _PURE, contents, info)


@cache
def build_installed_wheel(project: str, *path: str) -> BuiltWheel:
    """Build the wheel of a project that is installed here, or in another folder of packages.

    Raise `Unmet` where its files are not known.
    """
    context = DistributionFinder.Context(name=project, path=list(path or sys.path))
    installed = next(iter(MetadataPathFinder.find_distributions(context)), None)
    if installed is None:
        raise Unmet(f"{project} is not installed")
    wheel, files = installed.read_text("WHEEL"), installed.files
    if wheel is None or not files:
        raise Unmet(f"{project} was not installed from a wheel: its files are not known")
    contents = {str(file): _read(file) for file in files if _is_content(file)}
    info = _info_files(installed)
    return _build(project.replace("-", "_"), installed.version, wheel, contents, info)


def _is_content(file: PackagePath) -> bool:
    """Whether a file is of the package itself: no script, no bytecode, not about the package."""
    is_inside = ".." not in file.parts and not file.is_absolute()
    return is_inside and file.suffix != ".pyc" and not file.parts[0].endswith(".dist-info")


def _info_files(installed: Distribution) -> dict[str, bytes]:
    """The files about the package, as its licence, by their path in their folder."""
    return {
        "/".join(file.parts[1:]): _read(file)
        for file in installed.files or ()
        if file.parts[0].endswith(".dist-info") and file.name not in _INSTALLERS
    }


def _read(file: PackagePath) -> bytes:
    return Path(str(file.locate())).read_bytes()


def _build(
    project: str,
    version: str,
    wheel: str,
    contents: Mapping[str, bytes],
    info: Mapping[str, bytes],
) -> BuiltWheel:
    folder = f"{project}-{version}.dist-info"
    about = {f"{folder}/{name}": body for name, body in {**info, "WHEEL": wheel.encode()}.items()}
    everything = {**dict(sorted(contents.items())), **dict(sorted(about.items()))}
    record = f"{folder}/RECORD"
    lines = [*(_record_line(*item) for item in everything.items()), f"{record},,"]
    everything[record] = ("\n".join(lines) + "\n").encode()
    name = f"{project}-{version}-{_tags(wheel)}.whl"
    return BuiltWheel(name, _zip(everything))


def _tags(wheel: str) -> str:
    """The tags in a file name, several of a kind joined by dots, from those in `WHEEL`."""
    lines = [line.partition(":")[2].strip() for line in wheel.splitlines() if line[:4] == "Tag:"]
    kinds = zip(*(line.split("-") for line in lines), strict=True)
    return "-".join(".".join(dict.fromkeys(kind)) for kind in kinds)


def _record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def _zip(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for info, content in _entries(contents.items()):
            archive.writestr(info, content)
    return buffer.getvalue()


def _entries(items: Iterable[tuple[str, bytes]]) -> Iterable[tuple[zipfile.ZipInfo, bytes]]:
    for name, content in items:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr, info.compress_type = _FILE_MODE, zipfile.ZIP_DEFLATED
        info.create_system = 3  # Unix, wherever it is built
        yield info, content
