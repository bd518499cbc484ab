"""`python -m release.notes v1.2.3`: print the notes of a release, if its tag fits the sources."""

import re
import sys
from pathlib import Path

from fleet_smi import __version__

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def release_notes(tag: str, version: str, changelog: str) -> str:
    """The section of a version; raise `ValueError` where tag, version and changelog differ."""
    if tag != f"v{version}":
        raise ValueError(
            f"the tag {tag} is not v{version}, the version in src/fleet_smi/__init__.py"
        )
    heading = re.escape(version)
    section = re.search(rf"^## {heading}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if section is None:
        raise ValueError(f"CHANGELOG.md has no section `## {version}`: rename `## Unreleased`")
    return section[1].strip() + "\n"


def main() -> None:
    """Print the notes for the tag that is given."""
    try:
        notes = release_notes(sys.argv[1], __version__, CHANGELOG.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write(notes)


if __name__ == "__main__":
    main()
