"""Golden files: compare a text with one, or rewrite it with FLEET_SMI_UPDATE_GOLDEN=1."""

import os
from pathlib import Path


def assert_matches_golden(golden: Path, text: str) -> None:
    """Fail unless the file contains exactly this text."""
    if os.environ.get("FLEET_SMI_UPDATE_GOLDEN") == "1":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.exists(), f"no {golden.name}: write it with FLEET_SMI_UPDATE_GOLDEN=1"
    assert text == golden.read_text(encoding="utf-8")
