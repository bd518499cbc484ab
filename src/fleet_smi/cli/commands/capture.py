"""`fleet-smi capture`: write what this machine's drivers and tools say, scrubbed, to one file."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.cli.local_fleet import start_reader
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.wire.capture.capture_file import CaptureFile

HELP = "write what the drivers and tools of this machine say to one file, for a bug report"
EXAMPLES = """\
  fleet-smi capture                      into the current folder
  fleet-smi capture -o gb10.json         into this file
  fleet-smi --replay gb10.json           show it, here or on any other machine
  fleet-smi free --replay gb10.json -v
"""
_MAX_SAMPLES = 60
_KINDS = {
    "host": "host name",
    "uid": "user id",
    "uuid": "UUID",
    "id": "other id",
    "serial": "serial number",
    "ipv4": "IPv4 address",
    "ipv6": "IPv6 address",
    "mac": "hardware address",
    "email": "e-mail address",
    "url": "URL",
    "program": "program name",
    "name": "unit or container name",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and how many samples it has."""
    parser.add_argument("-o", "--out", metavar="FILE", help="the file; - is stdout")
    parser.add_argument(
        "--samples", type=int, metavar="N", default=2, help="how many, a second apart (2)"
    )


def run(args: argparse.Namespace) -> int:
    """Capture this machine, and list what the file has in it."""
    if not 1 <= args.samples <= _MAX_SAMPLES:
        raise UsageError(f"--samples {args.samples}: must be 1 to {_MAX_SAMPLES}")
    reader = start_reader()
    from fleet_smi import config
    from fleet_smi.node.capture import take_capture
    from fleet_smi.node.sampler import driver_deadlines
    from fleet_smi.wire.capture.capture_file import MAX_CAPTURE_BYTES, encode_capture

    node = config.load().node
    reader.deadlines = driver_deadlines(node)
    capture = take_capture(reader, root=node.root, lease_dir=node.lease_dir, samples=args.samples)
    data = encode_capture(capture)
    if len(data) > MAX_CAPTURE_BYTES:
        raise UsageError("the capture would be too large to be replayed: take fewer --samples")
    if args.out == "-":
        sys.stdout.write(data.decode())
    else:
        _write(args.out, data.decode())
        print("\n".join(_review(capture)))
    return 0


def _write(out: str | None, text: str) -> None:
    from pathlib import Path

    from fleet_smi.cli.atomic_write import write_file

    path = Path(out or time.strftime("fleet-smi-capture-%Y%m%d-%H%M%S.json"))
    # For its owner alone, until they have looked at it. A file that was named is replaced.
    write_file(path, text, 0o600, replace=out is not None)
    print(f"wrote {path} ({len(text.encode()) / 1000:.0f} kB)")


def _review(capture: "CaptureFile") -> list[str]:
    """Return what is in the file, for the person who decides whether to send it."""
    readings = capture.samples[-1].readings
    read = [name for name, reading in readings.items() if reading.outcome == "ok"]
    failed = [
        f"{name} ({reading.message})"
        for name, reading in readings.items()
        if reading.outcome not in ("ok", "NotPresent")
    ]
    from fleet_smi.model.units import pluralize

    replaced = [
        pluralize(count, _KINDS.get(kind, kind)) for kind, count in capture.replaced.items()
    ]
    return [
        f"  readings  {', '.join(read)}; {pluralize(len(capture.samples), 'sample')}",
        *([f"  failed    {'; '.join(failed)}"] if failed else []),
        *[f"  output    {command}" for command in capture.outputs],
        f"  replaced  {', '.join(replaced) or 'nothing'}",
        "It is JSON: look through it before you send it. `fleet-smi --replay FILE` shows it.",
    ]
