"""Files in the formats of the five ancestors, where they are at hand."""

import os
from pathlib import Path

import pytest


def sample(name: str) -> bytes:
    """One file of the folder of samples; skip the test where there is no such folder."""
    folder = _folder()
    if folder is None:
        pytest.skip("no folder of samples: set FLEET_SMI_SEED_SAMPLES")
    return (folder / name).read_bytes()


def sample_folder(name: str) -> Path:
    """A folder of samples; skip the test where there is none."""
    folder = _folder()
    if folder is None:
        pytest.skip("no folder of samples: set FLEET_SMI_SEED_SAMPLES")
    return folder / name


def _folder() -> Path | None:
    named = os.environ.get("FLEET_SMI_SEED_SAMPLES")
    captures = os.environ.get("FLEET_SMI_CAPTURES")
    beside = Path(captures).parent / "seed-samples" if captures else None
    folder = Path(named) if named else beside
    return folder if folder is not None and folder.is_dir() else None
