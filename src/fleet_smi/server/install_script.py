"""The install script of a hub: a shell script that has the installer and the wheels' checksums.

It says nothing of the request or of the hub's address: its own checksum stays the same until the
wheels change, and a join line can contain it.
"""

import hashlib
import logging
from collections.abc import Sequence
from importlib.resources import files

from fleet_smi.errors import Unmet
from fleet_smi.hub.wheelhouse import WheelFile, Wheelhouse

logger = logging.getLogger(__name__)
_PROGRAM = ("wheel_tags.py", "agent_installer.py", "agent_install.py")
_END = "FLEET_SMI_END_OF_FILE"


def render_install_script(wheels: Sequence[WheelFile]) -> bytes:
    """The script for these wheels."""
    listed = "".join(f"{wheel.sha256}  {wheel.name}\n" for wheel in wheels)
    bindings = files("fleet_smi.node.bindings")
    program = "".join(
        _here_document(
            f"fleet_smi/node/bindings/{name}", bindings.joinpath(name).read_text("utf-8")
        )
        for name in _PROGRAM
    )
    template = files("fleet_smi.server").joinpath("install.sh").read_text("utf-8")
    return template.replace("#FILES#\n", program + _here_document("wheels", listed)).encode()


def script_checksum(wheelhouse: Wheelhouse) -> str | None:
    """The SHA-256 of the script as `sha256sum` prints it; `None` where there is none. Blocking."""
    try:
        wheels = wheelhouse.list_wheels()
    except Unmet as error:
        logger.warning("nodes cannot install from this hub: %s", error)
        return None
    return hashlib.sha256(render_install_script(wheels)).hexdigest()


def _here_document(path: str, text: str) -> str:
    # Quoted, so that the shell changes nothing in it.
    return f"    cat >\"$folder/{path}\" <<'{_END}' || return\n{text}{_END}\n"
