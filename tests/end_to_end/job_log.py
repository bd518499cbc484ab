"""What jobs and the queue did: who had which GPU when, and whether the promised order was kept."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count, pairwise, zip_longest
from math import inf
from pathlib import Path
from typing import NamedTuple

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError
from fleet_smi.model.booked_gpus import people_on
from tests.end_to_end.user_fleet import UserFleet

JOB = (
    'echo "began $(date +%s.%N) $(id -un) $(hostname) $CUDA_VISIBLE_DEVICES" > {log}; '
    "until test -e {go}; do sleep 0.1; done; sleep {seconds}; "
    'echo "ended $(date +%s.%N)" >> {log}'
)
"""A job that writes down when it ran, as whom, and on which GPUs; it ends after it was let go."""
_HEAR_SECONDS = 3.0
"""The hub hears that a GPU is free again within this time, or as late as was measured."""
_RETURN_SECONDS = 10.0
"""After a restart of the hub, nodes report again within this time, or as late as was seen: before,
its data is old."""
_LOOK_SECONDS = 0.15
_LOOKS_PER_FLEET = 4
_FRESH_SECONDS = 2.0


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


class FleetLook(NamedTuple):
    """What the hub knew at one time: who was on each GPU, and which nodes had just reported."""

    at: float
    people: dict[str, frozenset[str]]
    fresh: frozenset[str]


class Delays(NamedTuple):
    """How late the hub heard of what had happened."""

    hear_seconds: float = _HEAR_SECONDS
    return_seconds: float = _RETURN_SECONDS


def measure_delays(
    looks: Sequence[FleetLook],
    runs: Sequence[JobRun],
    nodes: Iterable[str] = (),
    killed_at: float | None = None,
) -> Delays:
    """Return how late the hub heard that jobs had ended, and these nodes after it was killed.

    On a busy machine agents get to report seconds later than they would. What the hub did not
    know yet, it could not keep to.
    """
    heard = [_HEAR_SECONDS]
    for run in runs:
        if run.ended is None:
            continue
        again = [
            each.began
            for each in runs
            if each.user == run.user and {*each.uuids} & {*run.uuids} and each.began >= run.ended
        ]
        seen = next(
            (
                look.at
                for look in looks
                if look.at >= run.ended
                and not any(run.user in look.people.get(uuid, ()) for uuid in run.uuids)
            ),
            inf,
        )
        # Somebody who is on the same GPU again seems not to have left it.
        if seen < min(again, default=inf):
            heard.append(seen - run.ended)
    if killed_at is None:
        return Delays(max(heard))
    expected = frozenset(nodes)
    back = next((each.at for each in looks if each.at > killed_at and each.fresh >= expected), inf)
    return Delays(max(heard), max(_RETURN_SECONDS, back - killed_at))


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
        self.looks: list[FleetLook] = []
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
            for number in count():
                if self._ending.wait(_LOOK_SECONDS):
                    return
                with suppress(FleetError):  # a hub that was killed
                    self._look(client)
                    if number % _LOOKS_PER_FLEET == 0:
                        self._look_at_fleet(client)

    def _look_at_fleet(self, client: HubClient) -> None:
        view = client.fleet()
        people = {gpu.uuid: people_on(gpu) for node in view.nodes for gpu in node.gpus}
        fresh = [
            node.name
            for node in view.nodes
            if node.age_seconds is not None and node.age_seconds < _FRESH_SECONDS
        ]
        self.looks.append(FleetLook(view.taken_at, people, frozenset(fresh)))

    def _look(self, client: HubClient) -> None:
        view = client.queue()
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

    What a person holds counts as use. It is known to the hub only after some time (`delays`), so
    that only what was certain counts as a violation. `tries` counts the nodes that each job tried:
    more than there were offers means that an offer was overlooked.
    """

    def __init__(
        self,
        requests: Iterable[Request],
        offers: Iterable[Offer],
        runs: Collection[JobRun],
        gpus: Mapping[str, Sequence[str]],
        killed_at: float | None = None,
        delays: Delays | None = None,
        tries: Mapping[str, int] | None = None,
    ) -> None:
        self.delays = delays = delays or Delays()
        self._requests = {each.job: each for each in requests}
        self._gpus = gpus
        ends = {run.job: run.ended or killed_at or inf for run in runs}
        # The hub may count what was lost with a node until it has missed its reports.
        self._lost = {run.job for run in runs if run.ended is None}
        by_job: dict[str, list[Offer]] = defaultdict(list)
        for offer in sorted(offers, key=lambda each: each.made_at):
            by_job[offer.job].append(offer)
        self._first = {job: found[0].made_at for job, found in by_job.items()}
        self._overlooked = {
            job for job, tried in (tries or {}).items() if tried > len(by_job.get(job, ()))
        }
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
        returned_at = -inf if killed_at is None else killed_at + delays.return_seconds
        for offer, _ in self._given:
            is_sure = killed_at is None or not killed_at <= offer.made_at < returned_at
            if is_sure and offer.made_at == self._first[offer.job]:
                self._check(offer)

    def _check(self, offer: Offer) -> None:
        at, asker = offer.made_at, self._requests[offer.job]
        most, least = self._held(at, self.delays.hear_seconds), self._held(at)
        for other in self._requests.values():
            # Who had arrived when the round began was in it.
            is_waiting = other.arrived_at < at < other.waited_until
            is_waiting = is_waiting and at < self._first.get(other.job, inf)
            is_waiting = is_waiting and other.job not in self._overlooked
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
            and (offer.made_at < end + self.delays.hear_seconds or each.job in self._lost)
            for uuid in each.uuids
        }
        return len(set(self._gpus[offer.node]) - taken) >= other.gpus
