"""Whether there may be a hub to ask, without loading what it takes to ask one."""

import argparse
import os
from typing import TYPE_CHECKING

from fleet_smi import paths

if TYPE_CHECKING:
    from fleet_smi.config import Settings


def may_have_hub(args: argparse.Namespace, settings: "Settings") -> bool:
    """Return whether a hub is named, runs here, or has an agent here."""
    if getattr(args, "hub", None) or settings.client.hub is not None:
        return True
    if os.path.exists(os.path.join(settings.hub.state, "address")):  # noqa: PTH110, PTH118
        return True
    socket = settings.agent.socket
    if socket == "off":
        return False
    found = [*([] if socket is None else [socket]), *paths.agent_sockets(os.environ)]
    return any(os.path.exists(path) for path in found)  # noqa: PTH110
