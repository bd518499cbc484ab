"""UUIDs that are duplicate or missing."""

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.uuids import snapshot_uuids, with_unique_uuids
from tests.builders import gpu, instance, snapshot

UUIDS = st.sampled_from(["", "GPU-a", "GPU-a#2", "GPU-b", "x" * 128])


def test_a_duplicate_uuid_is_numbered_and_collides_with_none() -> None:
    cards = [gpu(place, uuid=uuid) for place, uuid in enumerate(["GPU-a", "GPU-a", "GPU-a#2", ""])]
    apart = with_unique_uuids(snapshot(*cards))
    assert snapshot_uuids(apart) == ["GPU-a", "GPU-a#3", "GPU-a#2", "of-unknown-uuid#2"]
    assert [card.uuid_is_made for card in apart.gpus] == [False, True, False, True]


@given(st.lists(st.tuples(UUIDS, st.lists(UUIDS, max_size=3)), max_size=6))
def test_every_device_has_a_unique_id_and_the_first_is_unchanged(
    devices: list[tuple[str, list[str]]],
) -> None:
    cards = [
        gpu(place, uuid=uuid, instances=tuple(instance(uuid=part) for part in parts))
        for place, (uuid, parts) in enumerate(devices)
    ]
    before = snapshot(*cards)
    uuids = snapshot_uuids(with_unique_uuids(before))
    assert len(set(uuids)) == len(uuids) == len(snapshot_uuids(before))
    assert set(snapshot_uuids(before)) - {""} <= set(uuids)
    assert all(0 < len(uuid) <= 128 for uuid in uuids)
    assert snapshot_uuids(with_unique_uuids(with_unique_uuids(before))) == uuids
