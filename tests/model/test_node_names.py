"""Unique display names of nodes."""

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.node_names import unique_node_names


def node(node_id: str, name: str) -> NodeView:
    return NodeView(node_id=node_id, name=name, taken_at=None, age_seconds=None)


def test_a_unique_name_is_used_as_it_is() -> None:
    assert unique_node_names([node("4c4c4544", "gpu01"), node("x", "gpu02")]) == {
        "4c4c4544": "gpu01",
        "x": "gpu02",
    }


def test_nodes_of_one_name_get_the_start_of_their_ids() -> None:
    named = unique_node_names([node("4c4c454400aa", "box"), node("9f9f454400bb", "box")])
    assert list(named.values()) == ["box~4c4c4544", "box~9f9f4544"]


def test_a_node_with_an_address_in_its_id_gets_the_address() -> None:
    named = unique_node_names([node("nvgpu-box", "box"), node("nvgpu-box@10.0.0.2:1080", "box")])
    assert list(named.values()) == ["box~nvgpu-bo", "box~10.0.0.2:1080"]


def test_names_stay_unique_where_ids_begin_alike_or_a_name_looks_like_a_suffix() -> None:
    named = unique_node_names([node("rack-one-a", "box"), node("rack-one-b", "box")])
    assert list(named.values()) == ["box~rack-one-a", "box~rack-one-b"]
    named = unique_node_names([node("one", "box"), node("two", "box"), node("evil", "box~one")])
    assert named == {"one": "box~one", "two": "box~two", "evil": "box~one~evil"}
