"""The sections of docs/migrating.md: their commands and settings, made to fit a test."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import code_blocks, page, section
from tests.machines import require_program


def migration_section(title: str) -> str:
    """What is written for who comes from there."""
    return section(page("docs/migrating.md"), title)


def migration_commands(title: str) -> list[str]:
    """Every command of a section."""
    return [
        line for block in code_blocks(migration_section(title), "sh") for line in block.splitlines()
    ]


def write_section_settings(title: str, replacements: Mapping[str, str], folder: Path) -> str:
    """A file with the settings of a section, its machines and files replaced by these."""
    (text,) = code_blocks(migration_section(title), "toml")
    for written, real in replacements.items():
        assert f'"{written}"' in text
        text = text.replace(f'"{written}"', f'"{real}"')
    path = folder / "fleet-smi.toml"
    path.write_text(text)
    return str(path)


def run_curl(command: str, url: str, **variables: str) -> bytes:
    """What a `curl` of a section prints, when the hub is at this URL."""
    require_program("curl")
    return subprocess.run(
        ["sh", "-c", command.replace("curl ", "curl -s ").replace("http://gpuhub:7070", url)],
        env=os.environ | variables,
        capture_output=True,
        check=False,
    ).stdout
