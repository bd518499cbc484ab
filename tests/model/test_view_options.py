"""View options: which part of a fleet is shown, and in which order."""

import msgspec
import pytest

from fleet_smi.errors import UsageError
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.filter import parse_filter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.view_options import SORT_KEYS, ViewOptions, parse_node_pattern, parse_states
from tests.builders import NOON, gpu, process, snapshot

BUSY = {"busy_percent": 90.0, "memory_used_bytes": 20 << 30, "temperature_celsius": 70.0}


def fleet() -> FleetView:
    """gpu01: free, busy (bob), busy (alice, bob); gpu02: free with unknown figures."""
    both = (process(1, "alice"), process(2, "bob"))
    unknown = gpu(3, busy_percent=None, temperature_celsius=None, power_watts=None)
    made = FleetState()
    made.apply(
        snapshot(
            gpu(0),
            gpu(1, processes=(process(3, "bob"),), **BUSY),
            gpu(2, processes=both, **BUSY | {"busy_percent": 99.0}),
        ),
        NOON,
    )
    made.apply(snapshot(unknown, node="gpu02"), NOON)
    return made.view(NOON)


def shown(**wishes: object) -> dict[str, list[int]]:
    view = ViewOptions(**wishes).apply(fleet())  # type: ignore[arg-type]
    return {node.name: [gpu.index for gpu in node.gpus] for node in view.nodes}


def test_by_default_everything_is_shown_sorted_by_index() -> None:
    assert shown() == {"gpu01": [0, 1, 2], "gpu02": [3]}


def test_the_gpus_of_a_user_show_only_their_processes() -> None:
    assert shown(user="alice") == {"gpu01": [2]}
    view = ViewOptions(user="alice").apply(fleet())
    assert [one.user for one in view.nodes[0].gpus[0].processes or ()] == ["alice"]


def test_a_node_pattern_matches_anywhere_in_the_name() -> None:
    assert list(shown(node=parse_node_pattern("u02"))) == ["gpu02"]


def test_states_are_alternatives() -> None:
    assert shown(states=parse_states("free")) == {"gpu01": [0], "gpu02": [3]}
    assert shown(states=parse_states("free, busy")) == {"gpu01": [0, 1, 2], "gpu02": [3]}


def test_a_filter_selects_gpus_and_drops_nodes_without_one() -> None:
    assert shown(filter=parse_filter("user:bob load>95")) == {"gpu01": [2]}
    assert shown(filter=parse_filter("free"), node=parse_node_pattern("gpu02")) == {"gpu02": [3]}


def test_an_empty_filter_selects_everything() -> None:
    bare = msgspec.structs.replace(fleet().nodes[0], gpus=())
    view = msgspec.structs.replace(fleet(), nodes=(bare,))
    assert ViewOptions(filter=parse_filter("")).apply(view).nodes == (bare,)


def test_states_are_case_insensitive() -> None:
    assert parse_states("FREE,Busy") == {"free", "busy"}


@pytest.mark.parametrize(
    ("sort", "order"),
    [("util", [2, 1, 0]), ("memory", [1, 2, 0]), ("user", [2, 1, 0]), ("attention", [0, 1, 2])],
)
def test_gpus_of_a_node_are_sorted(sort: str, order: list[int]) -> None:
    assert shown(sort=sort)["gpu01"] == order


@pytest.mark.parametrize("sort", SORT_KEYS)
def test_unmeasured_figures_sort_last(sort: str) -> None:
    assert shown(sort=sort)["gpu02"] == [3]


@pytest.mark.parametrize("text", ["", "idle", "free,idle", ","])
def test_an_unknown_state_is_refused_with_the_list_of_states(text: str) -> None:
    with pytest.raises(UsageError, match="the states are free, leased, busy"):
        parse_states(text)


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        parse_node_pattern("gpu[")
