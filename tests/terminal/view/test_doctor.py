"""The screen of `fleet-smi doctor`."""

from pathlib import Path

import pytest

from fleet_smi.model.doctor_result import DoctorResult
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import doctor
from tests.golden import assert_matches_golden

GOLDEN = Path(__file__).parent / "golden"
FINDINGS = (
    DoctorResult(id="nvidia.driver", status="PASS", words="driver 590.48.01 answers in 12 ms"),
    DoctorResult(
        id="nvidia.persistence",
        status="WARN",
        words="persistence mode is off: the first read after a pause takes a second or more",
        remedy="enable the nvidia-persistenced service, or run `nvidia-smi -pm 1` as root",
    ),
    DoctorResult(
        id="processes.visible",
        status="FAIL",
        words="/proc is mounted with hidepid=2: other people's processes have no name",
        remedy="add the user to the group that /proc names in its gid option",
    ),
    DoctorResult(id="hub", status="SKIP", words="no hub is configured"),
)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_checks_match_the_golden_file(columns: int) -> None:
    assert_matches_golden(
        GOLDEN / f"doctor-{columns}.txt", doctor.render(FINDINGS, columns, Paint(enabled=False))
    )


def test_the_coloured_checks_match_the_golden_file() -> None:
    assert_matches_golden(
        GOLDEN / "doctor-80-coloured.txt", doctor.render(FINDINGS, 80, Paint(enabled=True))
    )


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_long_sentences_are_wrapped_and_never_truncated(columns: int) -> None:
    text = doctor.render(FINDINGS, columns, Paint(enabled=False))
    assert max(map(len, text.splitlines())) <= columns
    words = text.split()
    for finding in FINDINGS:
        assert set(finding.words.split()) | set((finding.remedy or "").split()) <= set(words)


def test_the_last_line_counts_by_status() -> None:
    text = doctor.render(FINDINGS, 80, Paint(enabled=False))
    expected = "4 checks · 1 passed · 1 warning · 1 failed · 1 skipped"
    assert text.splitlines()[-1] == expected
    assert doctor.render(FINDINGS[:1], 80, Paint(enabled=False)).endswith("1 check · 1 passed\n")
