"""Captured output of real machines, from the folder in `FLEET_SMI_CAPTURES`.

Captures are not part of the project; without them the tests that use them are empty.
`python -m tests.captures` prints how many of them the parsers read correctly.
"""

import os
from pathlib import Path


def capture_files(folder: str) -> list[Path]:
    """Return the files of a folder of captures, sorted; empty without captures."""
    root = os.environ.get("FLEET_SMI_CAPTURES")
    if not root or not (Path(root) / folder).is_dir():
        return []
    return sorted(path for path in (Path(root) / folder).iterdir() if path.is_file())


def capture_text(path: Path) -> str:
    """Return the text of a capture, decoded as the bindings do: bad bytes are replaced."""
    return path.read_bytes().decode("utf-8", errors="replace")


def main() -> None:
    """Print one line per folder: files, how many were parsed or refused, and wrong fields."""
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
