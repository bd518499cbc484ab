"""Sample files in the formats of the five older systems.

They are in the folder `FLEET_SMI_SEED_SAMPLES`, or beside the captures. They are not part of the
project: without them the tests are skipped, except in CI if there are captures.
"""

import os
from pathlib import Path

import pytest

_MISSING = "no folder of samples: set FLEET_SMI_SEED_SAMPLES"


def seed_sample(name: str) -> bytes:
    """Return the content of a sample file; skip the test without samples."""
    return seed_sample_path(name).read_bytes()


def seed_sample_path(name: str) -> Path:
    """Return the path of a sample; skip the test without samples."""
    captures = os.environ.get("FLEET_SMI_CAPTURES", "")
    folder = _folder(captures)
    if folder is not None and folder.is_dir():
        return folder / name
    assert not (os.environ.get("CI") and captures and Path(captures).is_dir()), _MISSING
    pytest.skip(_MISSING)


def _folder(captures: str) -> Path | None:
    named = os.environ.get("FLEET_SMI_SEED_SAMPLES")
    if named:
        return Path(named)
    return Path(captures).parent / "seed-samples" if captures else None
