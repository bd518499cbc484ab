"""The file format `gpustat` of `--drop`: one JSON file per host, as `gpustat --json` prints it."""

import re
from datetime import datetime

from fleet_smi.compat.gpustat.codec import node_json
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.file import FileFormat

# No path separators, and no leading dot or dash: a hidden file, or an option in a shell.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+|^[.-]+", re.ASCII)


def host_stem(snapshot: Snapshot) -> str:
    """The host's name alone: readers of gpustat's files know a host by its file name."""
    return _UNSAFE.sub("_", snapshot.name)[:128]


def _encode(snapshot: Snapshot) -> bytes:
    # gpustat prints its query time as local time without an offset.
    local = datetime.fromtimestamp(snapshot.taken_at).astimezone()
    return node_json(snapshot, local.replace(tzinfo=None).isoformat())


FILE_FORMAT = FileFormat(host_stem, ".json", _encode)
