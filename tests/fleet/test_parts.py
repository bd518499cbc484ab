"""Answers made from the parts of nodes equal those made from the view of the whole fleet."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.candidates import GpuRequest, name_device
from fleet_smi.model.filter import parse_filter
from fleet_smi.model.node_names import node_place
from fleet_smi.model.node_summary import parts_overview, view_overview
from fleet_smi.model.people import holding_briefs, people_from_briefs, people_in_view
from fleet_smi.model.select import choose_devices, find_offer
from fleet_smi.model.view_options import SORT_KEYS, ViewOptions, parse_node_pattern, parse_states
from fleet_smi.model.views import FleetParts, build_node_view, summarize_parts
from tests.builders import NOON
from tests.random_fleet import random_fleet

NOW = NOON + 100.0
SEEDS, SIZES = st.integers(0, 1 << 32), st.integers(0, 5)
OPTIONS = st.builds(
    # Not the class itself: its types are those of a type checker only.
    lambda **fields: ViewOptions(**fields),  # noqa: PLW0108
    user=st.sampled_from((None, None, "alice", "山田", "nobody")),
    node=st.sampled_from((None, None, parse_node_pattern("gpu[12]"))),
    states=st.sampled_from((None, None, parse_states("free,held"), parse_states("broken"))),
    filter=st.sampled_from(
        ("", "", "free", "-busy user:bob", "mem>20G", "model:H100 rack", "why:lost")
    ).map(parse_filter),
    sort=st.sampled_from(tuple(SORT_KEYS)),
)
REQUESTS = st.builds(
    GpuRequest,
    count=st.sampled_from((0, 1, 3, 50)),
    min_free_bytes=st.sampled_from((0, 0, 30 << 30)),
    model=st.sampled_from((None, None, "a100", "Instinct", "1g")),
    vendor=st.sampled_from((None, None, "amd")),
    same_node=st.booleans(),
    policy=st.sampled_from(("free", "no-process", "memory", "load", "context")),
)


@settings(max_examples=40)
@given(SEEDS, SIZES, OPTIONS)
def test_a_selection_of_parts_is_that_of_the_view(
    seed: int, size: int, options: ViewOptions
) -> None:
    fleet = random_fleet(seed, size)
    view, nodes = options.apply(fleet.view(NOW)), tuple(fleet.parts(NOW))
    assert summarize_parts(nodes) == view.summary
    selected = tuple(parts for each in nodes if (parts := options.select(each)) is not None)
    assert tuple(map(build_node_view, selected)) == view.nodes
    part = FleetParts(taken_at=NOW, summary=view.summary, nodes=selected)
    assert parts_overview(part) == view_overview(view)


@settings(max_examples=40)
@given(SEEDS, SIZES, REQUESTS)
def test_an_offer_from_parts_is_that_of_the_view(seed: int, size: int, request: GpuRequest) -> None:
    fleet = random_fleet(seed, size)
    view, nodes = fleet.view(NOW), tuple(fleet.parts(NOW))
    offer, choice = find_offer(view, request), choose_devices(nodes, request, explain=True)
    assert [(one.uuid, one.free_memory_bytes, one.verdict) for one in choice.offered] == [
        (one.uuid, one.free_memory_bytes, one.verdict) for one in offer.offered
    ]
    assert (choice.refused, choice.unmet) == (offer.refused, offer.unmet)
    brief = choose_devices(nodes, request)
    assert replace(brief, refused=offer.refused) == choice
    named = [name_device(one, one.node.name, explain=False).label for one in brief.offered]
    assert named == [one.label for one in offer.offered]


@settings(max_examples=40)
@given(SEEDS, SIZES)
def test_people_and_pages_from_parts_are_those_of_the_view(seed: int, size: int) -> None:
    fleet = random_fleet(seed, size)
    view, nodes = fleet.view(NOW), tuple(fleet.parts(NOW))
    briefs = [(parts.node.name, one) for parts in nodes for one in holding_briefs(parts, NOW)]
    assert people_from_briefs(briefs) == people_in_view(view)
    for at, parts in enumerate(nodes):
        after = fleet.parts(NOW, node_place(parts.node.name, parts.node.node_id))
        assert [each.node.node_id for each in after] == [
            each.node.node_id for each in nodes[at + 1 :]
        ]
