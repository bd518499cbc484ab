"""The file format `gpustat-text` of `--drop`: one file per host, as `gpustat -cup --color` prints.

The file is named after the host alone, so that a page made with `cat FOLDER/* | ansi2html` and
scripts that read it need no change.
"""

from datetime import datetime

from fleet_smi.compat.gpustat.codec import GpustatOptions, node_text
from fleet_smi.compat.gpustat.file_format import host_stem
from fleet_smi.compat.gpustat.table import DATE_FORMAT
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.file import FileFormat

_OPTIONS = GpustatOptions(command=True, user=True, pid=True, colour=True)


def _encode(snapshot: Snapshot) -> bytes:
    local = datetime.fromtimestamp(snapshot.taken_at).astimezone()
    return node_text(snapshot, local.strftime(DATE_FORMAT), _OPTIONS).encode()


FILE_FORMAT = FileFormat(host_stem, "", _encode)
