"""Identity of nodes: which machine a report is from, and whether it may report for that node.

Pure: the caller passes the time, by the hub's own clock.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from fleet_smi.errors import Refused
from fleet_smi.fleet.delivery import IdOrigin
from fleet_smi.fleet.machines import (
    JITTER_SECONDS,
    Evidence,
    Machine,
    affinity,
    closest,
    differs,
    evidence_of,
    is_other_host,
    may_join_as,
    report_key,
    suffixed_id,
)
from fleet_smi.fleet.node_checkpoint import NodeCheckpoint
from fleet_smi.fleet.node_limit import check_id_count, check_machine_count
from fleet_smi.fleet.via import Via
from fleet_smi.model.merge import with_node_id
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.transports import detach_remedy
from fleet_smi.model.verdict.judge import silence_timeout
from fleet_smi.model.verdict.thresholds import Thresholds


class NodeIdentities:
    """The machines of every node id, and the route that each id first came by.

    `trusted_sources` may report for every node. Only `push` and these may report for an id that
    `has_credential`.
    """

    def __init__(
        self,
        trusted_sources: Collection[str] = (),
        has_credential: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._trusted = frozenset(trusted_sources)
        self.has_credential = has_credential
        # By the id that they report, which is the node id of the first of them.
        self._machines: dict[str, list[Machine]] = {}
        self._reported_ids: dict[str, str] = {}
        # The same by reported id: this is looked up for every node that is shown.
        self._clones: dict[str, list[str]] = {}
        # The machine of a report that is like the one before it, which nearly every one is.
        self._by_key: dict[tuple[object, ...], Machine] = {}
        self._routes: tuple[frozenset[Via], frozenset[str]] | None = None

    def set_routes(self, targets: Iterable[Via], open_sources: Iterable[str]) -> None:
        """Set the routes of this hub: its targets, and the sources that have no list of them."""
        self._routes = frozenset(targets), frozenset(open_sources)

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        for machines in self._machines.values():
            for machine in machines:
                machine.shift_times(seconds)

    def identify(
        self,
        snapshot: Snapshot,
        at: float,
        via: Via,
        thresholds: Thresholds,
        *,
        origin: IdOrigin = "report",
        round: int | None = None,
    ) -> tuple[Snapshot, Via]:
        """Return a snapshot and its route under the id of its own node; raise `Refused`.

        To be called before a fleet applies it, for what comes from another machine. `round`
        numbers the polls of a command without a hub.
        """
        timeout = silence_timeout(snapshot.interval_seconds, thresholds)
        node_id = self.resolve(snapshot, at, via, timeout, origin=origin, round=round)
        if node_id == snapshot.node_id:
            return snapshot, via
        own_via = Via(via.source, node_id) if via.target == snapshot.node_id else via
        return with_node_id(snapshot, node_id), own_via

    def resolve(
        self,
        snapshot: Snapshot,
        at: float,
        via: Via,
        timeout: float | None,
        *,
        origin: IdOrigin = "report",
        round: int | None = None,
    ) -> str:
        """Return the id of the node that a snapshot is from; raise `Refused` for a false claim.

        `timeout` is the number of seconds without a report after which its node is silent.
        """
        key = report_key(snapshot, via, round)
        machine = self._by_key.get(key)
        if machine is None or machine.rival is not None:
            evidence = evidence_of(snapshot, at, via, round)
            machine = self._find(snapshot.node_id, evidence, timeout, origin)
            if machine.evidence is evidence:
                self._by_key.pop(machine.key, None)
                if (other := self._by_key.get(key)) is not None:
                    other.key = ()
                self._by_key[key], machine.key = machine, key
        machine.observe(at, timeout)
        machine.seen = True
        return machine.node_id

    def known_machine(self, key: tuple[object, ...]) -> Machine | None:
        """Return the machine that was last resolved by this `report_key`, unless it has a rival."""
        machine = self._by_key.get(key)
        return None if machine is None or machine.rival is not None else machine

    def node_id_of(self, snapshot: Snapshot, via: Via) -> str:
        """Return the id of the node that a snapshot was last resolved to."""
        machines = self._machines.get(snapshot.node_id, ())
        if not machines:
            return snapshot.node_id
        if len(machines) == 1:
            return machines[0].node_id
        evidence = evidence_of(snapshot, 0.0, via)
        alike = [each for each in machines if not differs(each.evidence, evidence)]
        return closest(alike or machines, evidence).node_id

    def joining_id(
        self, node_id: str, boot_id: str | None, name: str, address: str, now: float
    ) -> str:
        """Return the id for a node that joins: one of its own, if another machine reports now."""
        joining = Evidence(
            via=Via("push", node_id),
            at=now,
            name=name,
            boot_id=boot_id,
            run_id=None,
            addresses=(address,),
            uuids=frozenset(),
            booted_at=None,
        )
        machines = [*self._machines.get(node_id, ()), *filter(None, [self._machine(node_id)])]
        running = [each for each in machines if now <= each.until]
        if boot_id is None:
            # By push it had a credential, which protects the id until it is revoked.
            running = [
                each for each in running if each.owner is None or each.owner.source != "push"
            ]
        if any(may_join_as(each.evidence, joining) for each in running):
            return node_id
        # With the id of a machine that is off, a clone of it would be refused until it is on.
        is_refused = self.has_credential(node_id) and boot_id is not None
        if not running and not (is_refused and machines and is_other_host(machines, joining)):
            return node_id
        # Not those of clones: one that lost its credential is to get its own id again.
        return suffixed_id(node_id, joining, [machines[0].evidence], {node_id})

    def add_clone(self, node_id: str, reported_id: str) -> None:
        """Note that a node reports another id than its own: its credential tells it apart."""
        if node_id not in self._reported_ids and node_id != reported_id:
            self._reported_ids[node_id] = reported_id
            self._clones.setdefault(reported_id, []).append(node_id)

    def annotate(self, checkpoint: NodeCheckpoint) -> NodeCheckpoint:
        """Return the checkpoint of a node with what tells it apart, where that is not usual."""
        node_id = checkpoint.node_id
        machine, reported_id = self._machine(node_id), self._reported_ids.get(node_id, node_id)
        owner = None if machine is None else machine.owner
        if owner in (None, checkpoint.via) and reported_id == node_id:
            return checkpoint
        return replace(checkpoint, owner=owner, reported_id=reported_id)

    def restore(self, checkpoint: NodeCheckpoint, thresholds: Thresholds) -> None:
        """Restore the machine of a node from its checkpoint."""
        snapshot, via = checkpoint.snapshot, checkpoint.via
        if via is not None:
            timeout = silence_timeout(snapshot.interval_seconds, thresholds)
            evidence = evidence_of(snapshot, checkpoint.at, via)
            machine = Machine(checkpoint.node_id, evidence, timeout)
            machine.owner = checkpoint.owner or via
            self._add(checkpoint.reported_id or checkpoint.node_id, machine)

    def forget(self, node_id: str) -> None:
        """Forget the machine of a node that is removed."""
        reported_id = self._reported_ids.pop(node_id, node_id)
        if reported_id != node_id:
            self._clones[reported_id].remove(node_id)
            if not self._clones[reported_id]:
                del self._clones[reported_id]
        machines = self._machines.get(reported_id, [])
        for machine in [each for each in machines if each.node_id == node_id]:
            machines.remove(machine)
            self._by_key.pop(machine.key, None)
            machine.key = ()
        if not machines:
            self._machines.pop(reported_id, None)

    def release(self, via: Via) -> None:
        """Release the nodes that a route owns, because the route is gone."""
        for machines in self._machines.values():
            for machine in machines:
                if machine.owner == via:
                    machine.owner = None

    def is_clone(self, node_id: str) -> bool:
        """Return whether a node reports an id that another machine had before it."""
        return node_id in self._reported_ids

    def twins(self, node_id: str) -> Sequence[str]:
        """Return the ids of the other nodes that report the same id as this one."""
        reported_id = self._reported_ids.get(node_id, node_id)
        clones = self._clones.get(reported_id)
        return [each for each in (reported_id, *clones) if each != node_id] if clones else ()

    def _machine(self, node_id: str) -> Machine | None:
        machines = self._machines.get(self._reported_ids.get(node_id, node_id), ())
        return next((each for each in machines if each.node_id == node_id), None)

    def _add(self, reported_id: str, machine: Machine) -> None:
        self._machines.setdefault(reported_id, []).append(machine)
        self.add_clone(machine.node_id, reported_id)

    def _find(
        self, node_id: str, evidence: Evidence, timeout: float | None, origin: IdOrigin
    ) -> Machine:
        """Return the machine of a report that differs from the one before it."""
        machines = self._machines.get(node_id, [])
        if not machines:
            return self._first(node_id, evidence, timeout, origin)
        alike = [each for each in machines if not differs(each.evidence, evidence)]
        if alike:
            machine = closest(alike, evidence)
            if machine.outlives_rival(evidence) and machine.rival is not None:
                self._split(node_id, machine.rival, timeout)
                machine.rival = None
            machine.forget_rival(evidence.at)
            self._check_owner(machine, evidence, origin)
            machine.refresh_evidence(evidence, timeout)
            return machine
        return self._changed_or_new(node_id, machines, evidence, timeout, origin)

    def _first(
        self, node_id: str, evidence: Evidence, timeout: float | None, origin: IdOrigin
    ) -> Machine:
        # The id of a clone is in use, although no machine reports it.
        clone = self._machine(node_id)
        machine = clone or Machine(node_id, evidence, timeout)
        self._check_owner(machine, evidence, origin)
        if clone is None:
            if self._routes is not None and evidence.via in self._routes[0]:
                check_id_count(chain.from_iterable(self._machines.values()), evidence.via)
            self._add(node_id, machine)
        machine.refresh_evidence(evidence, timeout)
        return machine

    def _changed_or_new(
        self,
        node_id: str,
        machines: Sequence[Machine],
        evidence: Evidence,
        timeout: float | None,
        origin: IdOrigin,
    ) -> Machine:
        """Return the machine that was rebooted or repaired, or a new one that runs beside it."""
        machine = closest(machines, evidence)
        is_stranger = len(machines) > 1 and not any(affinity(machine.evidence, evidence))
        if is_stranger or machine.runs_beside(evidence):
            return self._split(node_id, evidence, timeout)
        if machine.was(evidence):
            self._check_owner(machine, evidence, origin)
            if evidence.at <= machine.since + JITTER_SECONDS:
                return machine  # it was buffered, or is late
            # It had not changed: the reports in between are of a second machine.
            newcomer, machine.rival = machine.evidence, None
            machine.replace_evidence(evidence, timeout)
            self._split(node_id, newcomer, timeout)
            return machine
        try:
            self._check_owner(machine, evidence, origin)
        except Refused:
            if evidence.at > machine.since:
                machine.rival = evidence
            raise
        if evidence.at > machine.since:  # else it was buffered before the change
            machine.rival = machine.evidence
            machine.replace_evidence(evidence, timeout)
        return machine

    def _split(self, node_id: str, evidence: Evidence, timeout: float | None) -> Machine:
        """Add one more machine that reports this id, under an id of its own."""
        machines = self._machines[node_id]
        check_machine_count(
            len(machines), evidence.via.target, has_credential=self.has_credential(node_id)
        )
        taken = {node_id, *(each.node_id for each in machines)}
        others = [each.evidence for each in machines if each.evidence is not evidence]
        own_id = suffixed_id(node_id, evidence, others, taken)
        # A clone that joined by itself has such an id, or somebody reports it: it is taken.
        while self.has_credential(own_id) or own_id in self._machines:
            taken.add(own_id)
            own_id = suffixed_id(node_id, evidence, others, taken)
        machine = Machine(own_id, evidence, timeout)
        machine.owner = evidence.via
        self._add(node_id, machine)
        return machine

    def _check_owner(self, machine: Machine, evidence: Evidence, origin: IdOrigin) -> None:
        """Raise `Refused` if a report comes by a route that may not report for this node."""
        via, owner = evidence.via, machine.owner
        if origin != "report":
            machine.owner = via  # not what somebody claimed before
        elif via.source in self._trusted or via == owner:
            machine.owner = owner or via
        elif self.has_credential(machine.node_id):
            raise Refused(
                f"reports the id of {machine.evidence.name}, which has a credential and so is "
                f"accepted by push only; {detach_remedy(via.source, via.target)}, or add "
                f"{via.source} to hub.trusted_transports",
                via.target,
            )
        elif owner is None or self._is_gone(machine, owner, evidence.at):
            machine.owner = via
        else:
            raise Refused(
                f"reports the id of {machine.evidence.name}, which comes by {owner.source} from "
                f"{owner.target}; if it is the same machine, run `fleet-smi nodes remove "
                f"{machine.node_id}`, or add {via.source} to hub.trusted_transports",
                via.target,
            )

    def _is_gone(self, machine: Machine, owner: Via, at: float) -> bool:
        """Return whether the route that owns a machine cannot report for it any more."""
        if self._routes is None:
            return False
        targets, open_sources = self._routes
        if owner.source not in open_sources:
            return owner not in targets
        is_silent = at > machine.until
        # Reports by push need a credential, unless the hub is open to all: then it was revoked.
        # Of other routes it is not known whether they were removed while the hub was down.
        return is_silent and (owner.source == "push" or not machine.seen)
