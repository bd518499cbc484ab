"""Time slots: every node is due once per round, many are spread, a few go together."""

import pytest

from fleet_smi.hub.time_slots import TimeSlots


def rounds(nodes: set[str], count: int) -> list[list[str]]:
    turns = TimeSlots(count)
    return [turns.due(nodes) for _ in range(count)]


@pytest.mark.parametrize("many", [1, 100, 101, 2000])
def test_every_node_is_due_once_per_round(many: int) -> None:
    nodes = {f"node-{number}" for number in range(many)}
    had = [node for turn in rounds(nodes, 10) for node in turn]
    assert sorted(had) == sorted(nodes)


def test_beyond_the_limit_the_longest_waiting_are_due_first() -> None:
    turns, line = (
        TimeSlots(10, max_per_slot=100),
        dict.fromkeys(f"node-{number}" for number in range(2000)),
    )
    had = set[str]()
    for _ in range(30):
        due = turns.due(line)
        assert len(due) <= 100
        had.update(due)
        for node in due:  # it changes again at once, and stands at the end
            line[node] = line.pop(node)
    assert had == set(line)


def test_many_nodes_are_spread_over_slots_and_a_few_are_not() -> None:
    assert max(map(len, rounds({f"node-{number}" for number in range(2000)}, 10))) < 400
    assert sorted(map(len, rounds({"a", "b", "c"}, 10))) == [0] * 9 + [3]
