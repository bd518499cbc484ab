"""`fleet-smi config`: show and check the settings, or write a settings file template."""

import argparse
import os
import sys

HELP = "show or check the settings, or write a settings file to start from"
EXAMPLES = """\
  fleet-smi config show          every setting, its value and its origin
  fleet-smi config check         every mistake in the files and variables
  fleet-smi config init          write a file with every setting, commented out
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action and its options."""
    parser.add_argument("action", choices=("show", "check", "init"), help="what to do")
    parser.add_argument("--json", action="store_true", help="with show: as JSON")
    parser.add_argument("--path", metavar="FILE", help="with init: the file to write")


def run(args: argparse.Namespace) -> int:
    """Show, check or write settings."""
    if args.action == "show":
        return _show(as_json=args.json)
    return _check() if args.action == "check" else _init(args.path)


def _show(*, as_json: bool) -> int:
    from fleet_smi import config
    from fleet_smi.config.template import format_value, to_toml_literal

    layer = config.resolve(os.environ)
    layer.raise_if_invalid()
    settings = [(setting, layer.values[setting.name]) for setting in config.SETTINGS]
    rows = [
        (setting.name, format_value(setting, entry.value), str(entry.origin))
        for setting, entry in settings
    ]
    if as_json:
        from fleet_smi.wire.json import to_json

        entries = [{"name": name, "value": value, "origin": origin} for name, value, origin in rows]
        sys.stdout.write(to_json({"settings": entries}, pretty=True).decode() + "\n")
    else:
        cells = [
            (name, "not set" if value is None else to_toml_literal(value), origin)
            for name, value, origin in rows
        ]
        sys.stdout.write(_table([("SETTING", "VALUE", "FROM"), *cells]))
    return 0


def _table(rows: list[tuple[str, str, str]]) -> str:
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "".join(
        f"{name:<{first}}  {value:<{second}}  {origin}\n" for name, value, origin in rows
    )


def _check() -> int:
    from fleet_smi import config
    from fleet_smi.paths import settings_files

    problems = config.resolve(os.environ, strict=True).problems
    for problem in problems:
        print(f"{problem.origin}: {problem.message}")
    if problems:
        return 2  # the exit code of every bad setting
    files = ", ".join(settings_files(os.environ))
    print(f"ok: {files or 'no settings file, only defaults'}")
    if files:
        print("a hub or agent that runs reads changes when it is restarted")
    return 0


def _init(path: str | None) -> int:
    from pathlib import Path

    from fleet_smi.cli.atomic_write import write_file
    from fleet_smi.config.template import render_template
    from fleet_smi.errors import UsageError
    from fleet_smi.paths import SYSTEM_SETTINGS_FILE, user_settings_file

    default = SYSTEM_SETTINGS_FILE if os.geteuid() == 0 else user_settings_file(os.environ)
    if not (path or default):
        raise UsageError("no home folder to write to: give a file with --path")
    file = Path(path or default or "")
    # The system file is world-readable, so tokens go into separate files there.
    write_file(
        file,
        render_template(),
        0o644 if str(file) == SYSTEM_SETTINGS_FILE else 0o600,
        replace=False,
    )
    print(f"wrote {file}")
    return 0
