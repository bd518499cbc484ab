"""How often somebody may try."""

from fleet_smi.model.attempts import Attempts


def test_after_the_burst_there_is_one_every_few_seconds_for_each_name() -> None:
    attempts = Attempts(burst=3, every_seconds=6.0)
    assert [attempts.wait_seconds("a", 100.0) for _ in range(5)] == [0.0, 0.0, 0.0, 6.0, 6.0]
    assert attempts.wait_seconds("b", 100.0) == 0.0
    assert attempts.wait_seconds("a", 104.0) == 2.0
    assert [attempts.wait_seconds("a", 106.0) for _ in range(2)] == [0.0, 6.0]


def test_what_is_given_back_does_not_count() -> None:
    attempts = Attempts(burst=1)
    for _ in range(100):
        assert not attempts.wait_seconds("a", 100.0)
        attempts.give_back("a")
