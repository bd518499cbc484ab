"""Synthetic pids: stable, never taken for real ones, and never shown."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.range_check import check_range
from fleet_smi.model.synthetic_pids import synthetic_pid
from tests.builders import gpu, process
from tests.verdicts import judge_once

TRAITS = st.none() | st.text() | st.integers()


@given(st.lists(TRAITS))
def test_a_synthetic_pid_is_stable_valid_and_no_real_one(
    traits: list[str | int | None],
) -> None:
    pid = synthetic_pid(*traits)
    assert pid == synthetic_pid(*traits)
    assert pid > 4_194_304
    assert check_range("pid", pid, {}) == pid


def test_other_traits_give_another_pid() -> None:
    assert (
        len(
            {
                synthetic_pid("alice", "python"),
                synthetic_pid("bob", "python"),
                synthetic_pid("alice"),
            }
        )
        == 3
    )


def test_a_synthetic_pid_is_never_shown() -> None:
    nameless = replace(process(synthetic_pid("x"), None, name="trainer"), pid_is_made=True)
    assert "somebody" in judge_once(gpu(processes=(nameless,))).reason
    named = process(4711, None, name="trainer")
    assert "pid 4711" in judge_once(gpu(processes=(named, nameless))).reason
