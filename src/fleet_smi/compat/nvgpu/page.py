"""Web page of an nvgpu agent or master: each machine under its address, with its table. Pure."""

from collections.abc import Iterable
from html import escape

from fleet_smi.compat.nvgpu.codec import MachineStatus
from fleet_smi.compat.nvgpu.table import render, status_mark

_REFRESH_SECONDS = 5
_CLASSES = {"[ ]": "free", "[~]": "used", "[!]": "stuck", "[?]": "unknown"}
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>nvgpu · fleet-smi</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{refresh_seconds}">
<style>
:root {{ color-scheme: light dark; font: 14px/1.4 sans-serif; }}
pre {{ font: 13px/1.4 ui-monospace, monospace; }}
.free {{ color: light-dark(#1b6e20, #81c995); }}
.used {{ color: light-dark(#1a56b0, #8ab4f8); }}
.stuck {{ color: light-dark(#b3261e, #ff8a80); }}
.unknown {{ color: light-dark(#7a5900, #fdd663); }}
</style></head>
<body>
{machines}
</body>
</html>
"""


def render_page(machines: Iterable[tuple[str, MachineStatus]]) -> str:
    """Render each machine; the text before it is the address that the master has for it."""
    parts = [_machine(address, status) for address, status in machines]
    return _PAGE.format(refresh_seconds=_REFRESH_SECONDS, machines="\n".join(parts))


def _machine(address: str, status: MachineStatus) -> str:
    if not isinstance(status.gpus, tuple):
        return f"<h2>{escape(address)}</h2>\n<p>{escape(str(status.error))}</p>"
    # One row per line, as the table for terminals has it; a head and a rule come first.
    head, rule, *lines = render(status.gpus, colour=False, memory_used_bytes=None).splitlines()
    rows = [
        f'<span class="{_CLASSES[status_mark(row)]}">{escape(line)}</span>'
        for row, line in zip(status.gpus, lines, strict=True)
    ]
    table = "\n".join([escape(head), rule, *rows])
    return f"<h2>{escape(f'{address} ({status.hostname})')}</h2>\n<pre>{table}</pre>"
