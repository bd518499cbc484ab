"""Backlogs of which the truth is known: jobs of several people on several GPUs, over hours."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fleet_smi.client.connection import HubConnection
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.node.buffer import ReportBuffer
from fleet_smi.node.buffered_sample import BufferedSample
from fleet_smi.node.credential_file import CredentialFile
from fleet_smi.node.hub_session import HubSession
from fleet_smi.node.outlets.push import PushOutlet
from fleet_smi.node.spool import Spool
from fleet_smi.wire.report import Receipt, encode_snapshot
from tests.builders import gpu, process, snapshot

PEOPLE = ("alice", "bob", "carol")
GPUS = 3
_SILENT_INTERVALS = 4  # from the last sample until now: its node is silent by then


class Job(NamedTuple):
    """A process of one person on one GPU, in so many samples."""

    uuid: str
    pid: int
    user: str
    first: int
    samples: int


class KnownTruth:
    """The jobs on one node, and the samples that an agent took of them."""

    def __init__(self, name: str, interval_seconds: float, samples: int, seed: int) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.samples = samples
        self.start = time.time() - (samples + _SILENT_INTERVALS) * interval_seconds
        chance = random.Random(f"{seed} {name}")
        self.jobs = [job for index in range(GPUS) for job in self._jobs_of_gpu(index, chance)]
        self._by_place = {
            (job.uuid, number): job
            for job in self.jobs
            for number in range(job.first, job.first + job.samples)
        }

    def gpu_seconds(self) -> dict[tuple[str, str], float]:
        """The seconds of each GPU that each person had."""
        seconds = defaultdict[tuple[str, str], float](float)
        for job in self.jobs:
            seconds[job.uuid, job.user] += job.samples * self.interval_seconds
        return seconds

    def sample(self, number: int) -> Snapshot:
        """What the agent saw at one time."""
        return self._snapshot(
            [self._card(index, number) for index in range(GPUS)],
            taken_at=self.start + number * self.interval_seconds,
            sequence=number,
            run_id="run",
        )

    def idle_sample(self, number: int, run_id: str) -> Snapshot:
        """A sample of now, when all jobs have ended."""
        cards = [gpu(index, uuid=self._uuid(index)) for index in range(GPUS)]
        return self._snapshot(cards, taken_at=time.time(), sequence=number, run_id=run_id)

    def _snapshot(self, cards: list[Gpu], **fields: Any) -> Snapshot:
        return snapshot(
            *cards,
            node=self.name,
            interval_seconds=self.interval_seconds,
            **fields,
        )

    def _card(self, index: int, number: int) -> Gpu:
        uuid = self._uuid(index)
        job = self._by_place.get((uuid, number))
        if job is None:
            return gpu(index, uuid=uuid)
        held_by = process(job.pid, user=job.user, started_at=float(job.pid))
        return gpu(index, uuid=uuid, busy_percent=95.0, processes=(held_by,))

    def _uuid(self, index: int) -> str:
        return f"GPU-{self.name}-{index}"

    def _jobs_of_gpu(self, index: int, chance: random.Random) -> Iterator[Job]:
        first, pid = chance.randrange(3), 1000 * (index + 1)
        while first < self.samples:
            length = min(chance.choice((1, 2, 3, 7, 30)), self.samples - first)
            yield Job(self._uuid(index), pid, chance.choice(PEOPLE), first, length)
            # Often another one follows at once; at times nobody has the GPU for a while.
            first, pid = first + length + chance.choice((0, 0, 0, 2)), pid + 10


class BacklogAgent:
    """The outlet of an agent with its spool; `after_receipt` is called after each receipt."""

    def __init__(self, truth: KnownTruth, folder: Path) -> None:
        self.truth = truth
        self.receipts = 0
        self.after_receipt: Callable[[], None] = lambda: None
        self._folder = folder / truth.name
        self._files = self._folder / "spool"
        self._starts = self._idle_samples = 0
        self._outlet: PushOutlet | None = None
        self._spool = Spool(str(self._files))
        for number in range(truth.samples):
            taken = BufferedSample("run", number, encode_snapshot(truth.sample(number)))
            self._spool.append(taken)
        self._backlog = set(self._files.iterdir())

    def connect(self, url: str, join_token: str) -> None:
        """Start to send, the oldest sample first."""
        session = _Session(self, HubConnection(url), CredentialFile(str(self._folder)), join_token)
        self._outlet = PushOutlet(session, ReportBuffer(self._spool))
        self._starts += 1

    def report(self) -> None:
        """Take one more sample: a receipt, which says what is durable, is for a report."""
        assert self._outlet is not None
        run_id = f"run-{self._starts}"
        self._outlet.publish(self.truth.idle_sample(self._idle_samples, run_id))
        self._idle_samples += 1

    @property
    def is_done(self) -> bool:
        """Whether the hub has called the whole backlog durable."""
        return self._backlog.isdisjoint(self._files.iterdir())

    def kill(self) -> None:
        """End it without a chance to save what is in its memory; `connect` starts the next."""
        outlet = self._outlet
        assert outlet is not None
        outlet._closing.set()
        outlet._wake.set()
        outlet._session.close()
        if outlet._sender is not None:
            outlet._sender.join()
        self._spool.close()
        self._outlet, self._spool = None, Spool(str(self._files))

    def close(self) -> None:
        if self._outlet is not None:
            self._outlet.close()


class _Session(HubSession):
    """A session that counts its receipts for the agent."""

    def __init__(self, agent: BacklogAgent, *args: Any) -> None:
        super().__init__(*args)
        self._agent = agent

    def send_report(self, *args: Any, **kwargs: Any) -> Receipt:
        receipt = super().send_report(*args, **kwargs)
        self._agent.receipts += 1
        self._agent.after_receipt()
        return receipt
