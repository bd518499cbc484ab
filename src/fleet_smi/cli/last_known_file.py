"""Last known nodes in a file, for a command that polls once per run, as from cron."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.cli.atomic_write import write_file
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.verdict.last_known import mark_silent
from fleet_smi.model.views import summarize_nodes

if TYPE_CHECKING:
    from fleet_smi.fleet.polled import PolledFleet

_FILE_MODE = 0o600
_MAX_BYTES = 256 << 20


class _Saved(Struct, frozen=True):
    """The nodes at one time, each under the id of the placeholder of its target."""

    taken_at: float
    nodes: dict[str, NodeView]


class LastKnownFile:
    """Replaces nodes that have not answered in this run by what an earlier run knew of them.

    Only of targets that are still polled. The file has no command lines: its folder may be public.
    """

    def __init__(self, path: Path, fleet: "PolledFleet") -> None:
        self._path = path
        self._fleet = fleet

    def complete(self, view: FleetView) -> FleetView:
        """Return the view with the last known nodes, and save it for the next run."""
        saved, listed = self._read(), {node.node_id for node in view.nodes}
        elapsed = max(0.0, view.taken_at - saved.taken_at)
        nodes: dict[str, NodeView] = {}
        for node in view.nodes:
            nodes[node.node_id] = node
            known = saved.nodes.get(node.node_id)
            # One machine by two names, one of which answers, is not listed twice.
            if node.taken_at is None and known is not None and known.node_id not in listed:
                silent = mark_silent(known, elapsed, view.taken_at)
                nodes[node.node_id] = replace(silent, trouble=node.trouble)
        self._write(view.taken_at, nodes)
        completed = tuple(nodes.values())
        return replace(view, nodes=completed, summary=summarize_nodes(completed))

    def _write(self, taken_at: float, nodes: dict[str, NodeView]) -> None:
        known = {
            target_id: mask_commands(nodes[node_id], "hidden")
            for target_id, node_id in self._fleet.node_ids.items()
            if node_id in nodes and nodes[node_id].taken_at is not None
        }
        text = msgspec.json.encode(_Saved(taken_at, known)).decode()
        write_file(self._path, text, _FILE_MODE, replace=True)

    def _read(self) -> _Saved:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size <= _MAX_BYTES:
                    return msgspec.json.decode(file.read(), type=_Saved)
        # A file that is missing, damaged or of another version: nothing is known.
        except (OSError, ValueError, RecursionError):
            pass
        return _Saved(0.0, {})
