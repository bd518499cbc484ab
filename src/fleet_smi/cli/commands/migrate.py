"""`fleet-smi migrate`: other systems' settings files made into one of ours."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.compat.settings_import.importer import SettingsImporter

HELP = "make a fleet-smi.toml of the settings of web-gpu-monitor, nvgpu, cluster-smi and others"
EXAMPLES = """\
  fleet-smi migrate config.ini                            print what it becomes
  fleet-smi migrate nvgpu_master.cfg cluster-smi.yml --out fleet-smi.toml
  fleet-smi migrate hosts.txt --as ssh                    its hosts are asked by ssh
"""
_WAYS = ("node_info", "ssh", "pull")
_MOST_BYTES = 1 << 20
_FOR_ALL = 0o644  # no secret is taken over


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files to read, and the one to write."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="settings of the system that is there now")
    add("--out", metavar="FILE", help="write it there (default: print it); never over another")
    add(
        "--as",
        dest="hosts_as",
        choices=_WAYS,
        default="node_info",
        help="what the hosts of a hosts.txt run: gpu-cluster-monitor (node_info, the default), "
        "nothing (ssh), or an agent that serves its reports (pull)",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the settings, and tell what was taken over and what was not."""
    from fleet_smi.compat.settings_import import import_settings
    from fleet_smi.compat.settings_import.importer import SettingsImporter

    taking = SettingsImporter(args.hosts_as)
    for file in dict.fromkeys(args.files):
        import_settings(file, _text(file), taking)
    if any(remark.imported for remark in taking.notes):
        _write(taking.to_toml(), args.out)
    _report(taking, args.out)
    return 0


def _text(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            body = opened.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise UsageError(f"{file} is too large for a settings file")
        return body.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no settings file: it is not text") from None


def _write(toml: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(toml)
        return
    from fleet_smi.cli.atomic_write import write_file

    write_file(Path(out), toml, _FOR_ALL, replace=False)


def _report(taking: "SettingsImporter", out: str | None) -> None:
    """What became of each part, file by file, apart from the settings themselves."""
    sys.stdout.flush()
    for file in taking.files:
        print(file, file=sys.stderr)
        for remark in taking.notes:
            if remark.file == file:
                mark = "taken over" if remark.imported else "left      "
                print(f"  {mark}  {remark.text}", file=sys.stderr)
    if not any(remark.imported for remark in taking.notes):
        raise Unmet("nothing of it can be taken over")
    if out is not None:
        print(f"wrote {out}; next: fleet-smi hub --config {out}", file=sys.stderr)
