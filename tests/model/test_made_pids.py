"""Pids that are not known: never taken for real ones, steady, and never shown."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.made_pids import made_pid
from fleet_smi.model.plausible import plausible
from tests.builders import gpu, process
from tests.judging import look

TRAITS = st.none() | st.text() | st.integers()


@given(st.lists(TRAITS))
def test_a_made_pid_is_steady_plausible_and_none_that_linux_gives(
    traits: list[str | int | None],
) -> None:
    pid = made_pid(*traits)
    assert pid == made_pid(*traits)
    assert pid > 4_194_304
    assert plausible("pid", pid, {}) == pid


def test_other_traits_have_another_number() -> None:
    assert len({made_pid("alice", "python"), made_pid("bob", "python"), made_pid("alice")}) == 3


def test_who_holds_a_gpu_is_never_named_by_a_made_pid() -> None:
    nameless = replace(process(made_pid("x"), None, name="trainer"), pid_is_made=True)
    assert "somebody" in look(gpu(processes=(nameless,))).reason
    told = process(4711, None, name="trainer")
    assert "pid 4711" in look(gpu(processes=(told, nameless))).reason
