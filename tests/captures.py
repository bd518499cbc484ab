"""Captures: what real machines printed, in the folder that `FLEET_SMI_CAPTURES` names.

They are not part of the project. Where there are none, tests over them have nothing to do.
`python -m tests.captures` prints how the readers fare over all of them.
"""

import os
from pathlib import Path


def capture_files(folder: str) -> list[Path]:
    """The files of a folder of captures, in order; none where there are no captures."""
    root = os.environ.get("FLEET_SMI_CAPTURES")
    if not root or not (Path(root) / folder).is_dir():
        return []
    return sorted(path for path in (Path(root) / folder).iterdir() if path.is_file())


def capture_text(path: Path) -> str:
    """The text of a capture, read as a binding reads it."""
    return path.read_bytes().decode("utf-8", errors="replace")


def main() -> None:
    """Print a line a folder: files, how many were read or refused by name, and wrong fields."""
    from tests.wire.parsers.nvidia_check import CHECKS

    print(
        f"{'folder':24}{'files':>7}{'read':>6}{'named':>7}{'fields':>8}{'wrong':>7}{'unknown':>9}"
    )
    for folder, check in CHECKS.items():
        tallies = [check(path) for path in capture_files(folder)]
        read, named = (sum(getattr(t, kind) for t in tallies) for kind in ("read", "named"))
        fields, unknown = (sum(getattr(t, kind) for t in tallies) for kind in ("fields", "unknown"))
        wrong = [line for tally in tallies for line in tally.wrong]
        print(
            f"{folder:24}{len(tallies):7}{read:6}{named:7}{fields:8}{len(wrong):7}{unknown:9}",
            *wrong,
            sep="\n  ! ",
        )


if __name__ == "__main__":
    main()
