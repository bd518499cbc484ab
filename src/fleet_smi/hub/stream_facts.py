"""The facts of a node that were sent last, and which GPUs have others now.

Most reports change figures alone. What a subscriber was sent of a GPU is then still true, which is
seen without making the text of its verdict.
"""

from collections.abc import Sequence

from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.model.stream_payload import GpuPayload, NodePayload
from fleet_smi.model.stream_payload_builder import gpu_payload


class SentFacts:
    """What the payload of a node was made from.

    `order` has the position in the sample of each GPU of the payload, where they differ.
    """

    __slots__ = ("_facts", "_marks", "order")

    def __init__(self, live: LiveNode, payload: NodePayload) -> None:
        order = live.order
        is_sorted = order == list(range(len(order)))
        self.order = None if is_sorted else order
        self._facts = live.facts
        self._marks = list(live.marks)
        if len(order) != len(payload.gpus) or len(self._marks) != len(order):
            self._marks = []  # it has instances, or missing GPUs
        for position, gpu in zip(order, payload.gpus, strict=False):
            self._update_mark(position, gpu, live)

    @property
    def marks(self) -> Sequence[int | None]:
        """The marks of the GPUs as they were sent, in the order of the sample."""
        return self._marks

    def has_same_facts(self, facts: tuple[int, bool]) -> bool:
        """Whether nothing of the node but its GPUs and figures can differ from what was sent."""
        return self._facts == facts

    def is_same_node(self, live: LiveNode) -> bool:
        """Whether only GPUs of the node may differ from what was sent."""
        return self._facts == live.facts and len(self._marks) == len(live.marks) > 0

    def changed_gpus(self, live: LiveNode, payload: NodePayload) -> tuple[GpuPayload, ...] | None:
        """All GPUs as they are now, `None` if all are as in the payload."""
        marks = live.marks
        if marks == self._marks and None not in marks:
            return None
        order, gpus = self.order or range(len(marks)), list(payload.gpus)
        for place, position in enumerate(order):
            if marks[position] is None or marks[position] != self._marks[position]:
                gpu, verdict = live.judged_gpu(position)
                gpus[place] = gpu_payload(gpu, verdict, {}, live.reported_at)
                self._update_mark(position, gpus[place], live)
        return tuple(gpus)

    def _update_mark(self, position: int, gpu: GpuPayload, live: LiveNode) -> None:
        """Remember the mark of a GPU, unless its reason has figures, which may differ any time."""
        if self._marks:
            is_constant = gpu.verdict.reason is None or gpu.verdict.state == "free"
            self._marks[position] = live.marks[position] if is_constant else None
