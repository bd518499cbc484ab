"""What jobs and the queue did: who had which GPU when, and whether the promised order was kept."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest
from math import inf
from pathlib import Path
from typing import NamedTuple

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError
from tests.end_to_end.user_fleet import UserFleet

JOB = (
    'echo "began $(date +%s.%N) $(id -un) $(hostname) $CUDA_VISIBLE_DEVICES" > {log}; '
    "until test -e {go}; do sleep 0.1; done; sleep {seconds}; "
    'echo "ended $(date +%s.%N)" >> {log}'
)
"""A job that writes down when it ran, as whom, and on which GPUs; it ends after it was let go."""
_HEAR_SECONDS = 3.0
"""The hub hears that a GPU is free again, or taken, within this time."""
_RETURN_SECONDS = 10.0
"""After a restart of the hub, nodes report again within this time: before, its data is old."""
_LOOK_SECONDS = 0.15


class JobRun(NamedTuple):
    """A job as its own log has it; `ended` is `None` if it was killed."""

    job: str
    user: str
    node: str
    uuids: tuple[str, ...]
    began: float
    ended: float | None


class Offer(NamedTuple):
    """GPUs that the hub offered to a request."""

    job: str
    node: str
    uuids: tuple[str, ...]
    made_at: float


class Request(NamedTuple):
    """A request as the queue had it; `waited_until` is when it was last seen without an offer."""

    job: str
    person: str
    gpus: int
    arrived_at: float
    waited_until: float = 0.0


def read_runs(folder: Path) -> list[JobRun]:
    """Return what the jobs wrote down, in the order in which they began."""
    runs = []
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        _, began, user, node, uuids = lines[0].split()
        ended = float(lines[1].split()[1]) if len(lines) > 1 else None
        runs.append(JobRun(path.name, user, node, tuple(uuids.split(",")), float(began), ended))
    return sorted(runs, key=lambda run: run.began)


def find_collisions(runs: Iterable[JobRun], killed_at: float | None = None) -> list[str]:
    """Return every pair of jobs that had one GPU at the same time."""
    by_gpu: dict[str, list[JobRun]] = defaultdict(list)
    for run in runs:
        for uuid in run.uuids:
            by_gpu[uuid].append(run)
    found = []
    for uuid, users in by_gpu.items():
        for first, second in pairwise(users):
            end = first.ended or killed_at
            if end is None or end > second.began:
                found.append(f"{uuid}: {first.job} until {end}, {second.job} from {second.began}")
    return found


class QueueWatch:
    """Looks at the queue several times a second and remembers requests and offers."""

    def __init__(self, fleet: UserFleet) -> None:
        self.requests: dict[str, Request] = {}
        self.offers: dict[tuple[str, float], Offer] = {}
        self.waiting: dict[str, str] = {}
        """The jobs that wait, by the id of the request."""
        self._fleet = fleet
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with self._fleet.client() as client:
            while not self._ending.wait(_LOOK_SECONDS):
                self._look(client)

    def _look(self, client: HubClient) -> None:
        try:
            view = client.queue()
        except FleetError:
            return  # a hub that was killed
        for row in view.rows:
            job = row.request.note or row.id
            if row.offer is None or row.id not in self.requests:
                self.requests[row.id] = Request(
                    job, row.person, row.request.count, row.arrived_at, view.taken_at
                )
            if row.offer is not None:
                made = Offer(job, row.offer.node, row.offer.uuids, row.offer.made_at)
                self.offers[row.id, row.offer.made_at] = made
        waiting = [row for row in view.rows if row.offer is None]
        self.waiting = {row.id: row.request.note or row.id for row in waiting}


class OrderCheck:
    """Compares the offers with the promised order: use, arrival, and nobody passed at their cost.

    What a person holds counts as use. It is known to the hub only after a moment, so that only
    what was certain counts as a violation.
    """

    def __init__(
        self,
        requests: Iterable[Request],
        offers: Iterable[Offer],
        runs: Collection[JobRun],
        gpus: Mapping[str, Sequence[str]],
        killed_at: float | None = None,
    ) -> None:
        self._requests = {each.job: each for each in requests}
        self._gpus = gpus
        ends = {run.job: run.ended or killed_at or inf for run in runs}
        # The hub may count what was lost with a node until it has missed its reports.
        self._lost = {run.job for run in runs if run.ended is None}
        by_job: dict[str, list[Offer]] = defaultdict(list)
        for offer in sorted(offers, key=lambda each: each.made_at):
            by_job[offer.job].append(offer)
        self._first = {job: found[0].made_at for job, found in by_job.items()}
        # What could not be used was given back when something else was offered.
        self._given = [
            (offer, after.made_at if after is not None else ends.get(offer.job, inf))
            for found in by_job.values()
            for offer, after in zip_longest(found, found[1:])
        ]
        self.offers = len(self._given)
        self.compared = 0
        self.passed: list[str] = []
        """Who was offered something before one who comes first, at nobody's cost."""
        self.violations: list[str] = []
        returned_at = -inf if killed_at is None else killed_at + _RETURN_SECONDS
        for offer, _ in self._given:
            is_sure = killed_at is None or not killed_at <= offer.made_at < returned_at
            if is_sure and offer.made_at == self._first[offer.job]:
                self._check(offer)

    def _check(self, offer: Offer) -> None:
        at, asker = offer.made_at, self._requests[offer.job]
        most, least = self._held(at, _HEAR_SECONDS), self._held(at)
        for other in self._requests.values():
            # Who came within a moment of it was perhaps not in that round.
            is_waiting = other.arrived_at + _HEAR_SECONDS < at < other.waited_until
            is_waiting = is_waiting and at < self._first.get(other.job, inf)
            ahead = most[other.person], other.arrived_at
            if not is_waiting or ahead >= (least[asker.person], asker.arrived_at):
                continue
            self.compared += 1
            text = f"{asker.job} ({asker.person}) before {other.job} ({other.person}) at {at}"
            # One's own small job may pass one's own large one.
            if asker.person != other.person and self._could_have_met(other, offer):
                self.violations.append(text)
            else:
                self.passed.append(text)

    def _held(self, at: float, delay: float = 0.0) -> Counter[str]:
        """Count the GPUs of each person; with a delay, at most as many as the hub may count.

        Those are also what was offered in the same round, and given back a moment ago.
        """
        held: Counter[str] = Counter()
        for offer, end in self._given:
            until = inf if delay and offer.job in self._lost else end + delay
            if (offer.made_at < at or (delay and offer.made_at == at)) and at < until:
                held[self._requests[offer.job].person] += len(offer.uuids)
        return held

    def _could_have_met(self, other: Request, offer: Offer) -> bool:
        """Whether what was offered, with what was surely free on that node, was enough."""
        taken = {
            uuid
            for each, end in self._given
            if each.job != offer.job
            and each.made_at <= offer.made_at
            and (offer.made_at < end + _HEAR_SECONDS or each.job in self._lost)
            for uuid in each.uuids
        }
        return len(set(self._gpus[offer.node]) - taken) >= other.gpus
