"""The hub's wheelhouse: the wheels that nodes install their agent from.

Fleet-smi itself, nvidia-ml-py and msgspec are built from what is installed here: for the hub's own
Python, or with the Debian package for each that the package runs on. Wheels of msgspec for others
are added by `fleet-smi hub wheelhouse`.
"""

import hashlib
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from fleet_smi.errors import Unmet
from fleet_smi.hub.wheel_builder import BuiltWheel, build_installed_wheel, build_own_wheel
from fleet_smi.paths import ensure_private_folder

DEPENDENCIES = ("msgspec", "nvidia-ml-py")
"""The dependencies of an agent, beside fleet-smi itself."""
_OF_PYTHON_310 = "tomli"
FOLDER = "wheelhouse"
_NAME = re.compile(
    r"(fleet_smi|msgspec|nvidia_ml_py|tomli)-[A-Za-z0-9_.!+]+(-[A-Za-z0-9_.]+){3}\.whl"
)
_MAX_WHEELS = 200


class WheelFile(Struct, frozen=True):
    """A wheel that is served."""

    name: str
    sha256: str
    size_bytes: int


class Wheelhouse:
    """A folder of wheels; every call blocks for the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._is_built = False
        # By name, size and time of the file: it is read once.
        self._known: dict[tuple[str, int, int], WheelFile] = {}

    def list_wheels(self) -> tuple[WheelFile, ...]:
        """The wheels, by name; the hub's own are built at the first call of a process.

        Raise `Unmet` where they cannot be built.
        """
        with self._lock:
            if not self._is_built:
                self._build()
                self._is_built = True
            try:
                return self._read()
            except OSError as error:  # a command replaces one just now, or the disk is away
                raise Unmet(f"{self._folder} cannot be read: {error.strerror}") from None

    def read(self, name: str) -> bytes | None:
        """The content of a wheel; `None` if there is none of that name."""
        # By the list: a name from outside never becomes a path.
        if name not in {wheel.name for wheel in self.list_wheels()}:
            return None
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def add(self, name: str, body: bytes) -> bool:
        """Add a wheel, atomically; return false if it is of another project or no wheel."""
        if not _NAME.fullmatch(name):
            return False
        ensure_private_folder(str(self._folder), Unmet)
        temporary = self._folder / f".{name}.{os.getpid()}"
        try:
            temporary.write_bytes(body)
            temporary.replace(self._folder / name)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise Unmet(f"cannot write to {self._folder}: {error.strerror}") from None
        return True

    def _build(self) -> None:
        try:
            built = [build_own_wheel(), *map(build_installed_wheel, DEPENDENCIES)]
            for wheel in built:
                self._put(wheel)
            self._remove_former(built)
            # The Debian package has it, because it runs on Python 3.10 as well.
            with suppress(Unmet):
                self._put(build_installed_wheel(_OF_PYTHON_310))
        except OSError as error:
            raise Unmet(f"the wheels of this hub cannot be built: {error}") from None

    def _put(self, wheel: BuiltWheel) -> None:
        path = self._folder / wheel.name
        if not path.is_file() or path.read_bytes() != wheel.body:
            self.add(*wheel)

    def _remove_former(self, built: list[BuiltWheel]) -> None:
        """Remove other versions: nodes install what the hub itself has."""
        versions = dict(wheel.name.split("-")[:2] for wheel in built)
        for path in self._folder.glob("*.whl"):
            project, version = path.name.split("-")[:2]
            if versions.get(project, version) != version:
                path.unlink(missing_ok=True)

    def _read(self) -> tuple[WheelFile, ...]:
        names = sorted(each.name for each in self._folder.iterdir() if _NAME.fullmatch(each.name))
        return tuple([self._describe(name) for name in names[:_MAX_WHEELS]])

    def _describe(self, name: str) -> WheelFile:
        path = self._folder / name
        status = path.stat()
        key = name, status.st_size, status.st_mtime_ns
        if key not in self._known:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            self._known[key] = WheelFile(name, digest, status.st_size)
        return self._known[key]
