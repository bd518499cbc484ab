"""Files in the formats of the five ancestors, where they are at hand.

They lie in the folder that `FLEET_SMI_SEED_SAMPLES` names, or beside the captures. They are not
part of the project: without them the tests are skipped, but not in CI where there are captures.
"""

import os
from pathlib import Path

import pytest

_MISSING = "no folder of samples: set FLEET_SMI_SEED_SAMPLES"


def seed_sample(name: str) -> bytes:
    """One file of the folder of samples; skip the test where there is no such folder."""
    return seed_sample_path(name).read_bytes()


def seed_sample_path(name: str) -> Path:
    """A folder of samples; skip the test where there is none."""
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
