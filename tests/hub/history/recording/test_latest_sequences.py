"""Latest sequences: a resent report is recognised, across restarts of its agent."""

import pytest

from fleet_smi.hub.history.recording.latest_sequences import LatestSequences
from tests.builders import snapshot


@pytest.mark.parametrize(
    ("run_id", "sequence", "expected"),
    [("new", 3, True), ("new", 4, False), ("old", 9, True), ("old", 10, False), (None, 1, False)],
)
def test_a_report_was_received_up_to_the_latest_number_of_its_run(
    run_id: str | None, sequence: int, expected: bool
) -> None:
    sequences = LatestSequences()
    for received in (snapshot(run_id="old", sequence=9), snapshot(run_id="new", sequence=3)):
        sequences.update(received)
    assert sequences.was_received(snapshot(run_id=run_id, sequence=sequence)) is expected


def test_numbers_survive_a_checkpoint() -> None:
    sequences = LatestSequences()
    sequences.update(snapshot(run_id="run", sequence=7))
    restored = LatestSequences(dict(sequences.by_run()))
    assert restored.was_received(snapshot(run_id="run", sequence=7))


def test_only_the_latest_runs_are_remembered() -> None:
    sequences = LatestSequences()
    for number in range(20):
        sequences.update(snapshot(run_id=f"run-{number}", sequence=1))
    assert list(sequences.by_run()) == ["run-16", "run-17", "run-18", "run-19"]
