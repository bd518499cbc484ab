"""Node descriptions: names, labels and GPUs are written when they change."""

from tests.builders import gpu
from tests.hub.history.reporting_node import NODE_ID, ReportingNode


def test_names_labels_and_gpus_are_written_when_they_change() -> None:
    story = ReportingNode(labels={"room": "a"})
    story.report_every_second(0, 30, gpu(), gpu(1))
    story.tick(29)
    assert sum(len(batch.gpus) for batch in story.stored.batches) == 2
    story.recorded.fleet.label(NODE_ID, "renamed", {"group": "vision"})
    story.recorded.history.mark_renamed(NODE_ID)
    story.report_every_second(30, 50, gpu(), gpu(1))
    story.tick(60)
    assert story.stored.nodes[NODE_ID].name == "renamed"
    assert story.stored.nodes[NODE_ID].labels == {"room": "a", "group": "vision"}
