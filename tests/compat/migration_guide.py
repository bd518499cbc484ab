"""The pages below docs/from: their commands and settings, adapted for tests."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs.pages import PROJECT, code_blocks, page, section
from tests.machines import require_program


def migration_section(title: str) -> str:
    """Return the page about moving from this tool, or the section of the guide for all of them."""
    if (PROJECT / f"docs/from/{title}.md").exists():
        return page(f"docs/from/{title}.md")
    return section(page("docs/migrating.md"), title)


def migration_commands(title: str) -> list[str]:
    """Return every shell command of a section."""
    return [
        line for block in code_blocks(migration_section(title), "sh") for line in block.splitlines()
    ]


def write_section_settings(title: str, replacements: Mapping[str, str], folder: Path) -> str:
    """Write the settings of a section, with its hosts and paths replaced; return the path."""
    (text,) = code_blocks(migration_section(title), "toml")
    for written, real in replacements.items():
        assert f'"{written}"' in text
        text = text.replace(f'"{written}"', f'"{real}"')
    path = folder / "fleet-smi.toml"
    path.write_text(text)
    return str(path)


def run_curl(command: str, url: str, **variables: str) -> bytes:
    """Run a `curl` command of a section against the hub at this URL; return its output."""
    require_program("curl")
    return subprocess.run(
        ["sh", "-c", command.replace("curl ", "curl -s ").replace("http://gpuhub:7070", url)],
        env=os.environ | variables,
        capture_output=True,
        check=False,
    ).stdout
