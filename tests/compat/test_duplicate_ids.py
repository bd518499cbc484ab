"""Several nodes with one name get distinct ids."""

from fleet_smi.compat.duplicate_ids import DuplicateIdResolver
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, snapshot

TWIN = snapshot(gpu(0, uuid="nvidia-gpu0@nvgpu-box", uuid_is_made=True), node_id="nvgpu-box")


def names(node: Snapshot) -> tuple[str, str]:
    return node.node_id, node.gpus[0].uuid


def test_two_machines_with_one_name_stay_two() -> None:
    known = DuplicateIdResolver()
    assert known.disambiguate(TWIN, "10.0.0.1:1080") is TWIN
    own = "nvgpu-box@10.0.0.2:1080"
    assert names(known.disambiguate(TWIN, "10.0.0.2:1080")) == (own, f"nvidia-gpu0@{own}")
    assert known.disambiguate(TWIN, "10.0.0.1:1080") is TWIN


def test_a_target_that_is_a_url_is_part_of_an_id_all_the_same() -> None:
    known = DuplicateIdResolver()
    known.disambiguate(TWIN, "a")
    assert names(known.disambiguate(TWIN, "http://b/"))[0] == "nvgpu-box@http:--b-"
