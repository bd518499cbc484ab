"""`fleet-smi migrate`: convert settings files of other systems into a fleet-smi.toml."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_smi.cli.formats import SETTINGS_FORMATS, load_format
from fleet_smi.errors import Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.config.importer import SettingsImporter

HELP = "convert the settings of web-gpu-monitor, nvgpu, cluster-smi and others"
EXAMPLES = """\
  fleet-smi migrate config.ini                            print the result
  fleet-smi migrate nvgpu_master.cfg cluster-smi.yml --out fleet-smi.toml
  fleet-smi migrate hosts.txt --as ssh                    poll its hosts over ssh
"""
_HOST_TYPES = ("node_info", "ssh", "pull")
_MAX_BYTES = 1 << 20
_FILE_MODE = 0o644  # secrets are never imported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files to read and the file to write."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="settings files of the current system")
    add("--out", metavar="FILE", help="write to this file (default: print); never overwrites")
    add(
        "--as",
        dest="hosts_as",
        choices=_HOST_TYPES,
        default="node_info",
        help="what the hosts of a hosts.txt run: gpu-cluster-monitor (node_info, the default), "
        "nothing (ssh), or an agent that serves its reports (pull)",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the settings, and report what was imported and what was skipped."""
    from fleet_smi.config.importer import SettingsImporter

    importer = SettingsImporter(args.hosts_as)
    # A file that is given twice is imported once, in the order given.
    for file in dict.fromkeys(args.files):
        import_settings(file, _read(file), importer)
    if any(note.imported for note in importer.notes):
        _write(importer.to_toml(), args.out)
    _report(importer, args.out)
    return 0


def import_settings(name: str, text: str, importer: "SettingsImporter") -> None:
    """Import one file by the first format that matches; raise `UsageError` if none does."""
    for path in SETTINGS_FORMATS:
        settings_format = load_format(path)
        if settings_format.matches(name, text):
            importer.start_file(name, settings_format.SYSTEM_NAME)
            settings_format.import_file(text, importer)
            return
    raise UsageError(
        f"{name} is not a known settings file: give a hosts.txt, a config.ini of "
        "web-gpu-monitor, the AGENTS file of nvgpu, cluster-smi.env or .yml, or a crontab"
    )


def _read(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            body = opened.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise UsageError(f"{file} is too large for a settings file")
        return body.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a settings file: it is not text") from None


def _write(toml: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(toml)
        return
    from fleet_smi.cli.atomic_write import write_file

    write_file(Path(out), toml, _FILE_MODE, replace=False)


def _report(importer: "SettingsImporter", out: str | None) -> None:
    """Print to stderr, file by file, what was imported and what was skipped and why."""
    # On a terminal, the settings come before the notes about them.
    sys.stdout.flush()
    for file in importer.files:
        print(file, file=sys.stderr)
        for note in importer.notes:
            if note.file == file:
                mark = "imported" if note.imported else "skipped "
                print(f"  {mark}  {note.text}", file=sys.stderr)
    if not any(note.imported for note in importer.notes):
        raise Unmet("no setting could be imported")
    if out is not None:
        print(f"wrote {out}; next: fleet-smi hub --config {out}", file=sys.stderr)
