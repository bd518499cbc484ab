"""Fixtures of the route tests: a hub with a small fleet."""

from collections.abc import Iterator

import pytest

from tests.builders import gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with two nodes: a free GPU on each, alice on one more, bob on two."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        bob = process(8, "bob")
        running.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        cards = (gpu(each, uuid=f"GPU-2-{each}", processes=(bob,)) for each in range(2))
        running.join_and_report(snapshot_now("gpu02", *cards, gpu(2, uuid="GPU-2-2")))
        yield running
