"""Hosts of shared files: which file reports for which host, over all folders of a hub.

A file is named after its host, but one that gpustat-web writes lists several, by the names in it.
"""

import re
import threading
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.hub.shared_folder import target_from_path
from fleet_smi.model.merge import with_node_id
from fleet_smi.model.snapshot import CollectorRun, Snapshot

_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._-]+")
_MAX_ID_LENGTH = 160


class FileHosts:
    """The file that reports for each host: the first that does, for as long as it does.

    Of files in several folders, one in the first folder of the settings.
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._ranks = {folder: rank for rank, folder in enumerate(folders)}
        self._lock = threading.Lock()  # each folder is read by a thread of its own
        self._owners: dict[str, tuple[int, str]] = {}
        self._hosts: dict[str, set[str]] = {}

    def claim(self, host: str, path: Path, folder: str) -> str:
        """Return the target of a host in a file: its name, or with the file's if it is taken."""
        rank, file = self._ranks.get(folder, 0), _file_key(path)
        with self._lock:
            owner_rank, owner = self._owners.get(host, (rank, file))
            if owner != file and owner_rank <= rank:
                return f"{host}@{file}"
            self._owners[host] = rank, file
            self._hosts.setdefault(file, set()).add(host)
            if owner != file:
                self._hosts[owner].discard(host)
        return host

    def release(self, path: Path, kept: Collection[str] = ()) -> list[str]:
        """Release the hosts of a file that it does not list any more; return them."""
        with self._lock:
            owned = self._hosts.get(_file_key(path), set())
            released = sorted(owned.difference(kept))
            owned.difference_update(released)
            for host in released:
                del self._owners[host]
            if not owned:
                self._hosts.pop(_file_key(path), None)
        return released

    def disambiguate(self, delivery: Delivery, path: Path, folder: str) -> Delivery:
        """Return the delivery of a host that is known by its name alone, of this file.

        Where another file reports for that host, it is a node of its own, with a warning.
        """
        host, snapshot = delivery.target, delivery.result
        target = self.claim(host, path, folder)
        if target == host:
            return delivery
        if not isinstance(snapshot, Snapshot):
            return replace(delivery, target=target)
        suffix = _NOT_IN_AN_ID.sub("-", _file_key(path)).strip("-")
        named = with_node_id(snapshot, f"{snapshot.node_id}@{suffix}"[:_MAX_ID_LENGTH])
        _, owner = self._owners.get(host, (0, "another file"))
        detail = f"{path} lists {host}, as {owner} does: let only one file report for a host"
        run = CollectorRun(name="hostname", outcome="failed", seconds=0.0, detail=detail[:512])
        return replace(delivery, target=target, result=replace(named, runs=(*named.runs, run)))


def _file_key(path: Path) -> str:
    """Return the path without its suffix: a host may change from text to JSON."""
    return f"{path.parent}/{target_from_path(path)}"
