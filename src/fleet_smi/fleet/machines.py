"""Machines behind a node id: what tells two apart, and what shows that both run at one time.

A node id is made from the machine-id, which cloned virtual machines and diskless machines share.
So reports are also compared by the boot that they are from, by addresses and by GPUs. A machine
that was rebooted or repaired differs from what it was, but what it was never reports again.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, count
from math import inf
from re import compile as compile_pattern

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.fleet.via import Via
from fleet_smi.model.snapshot import Snapshot

# Times of two reports are compared with this margin: some transports measure in whole seconds.
JITTER_SECONDS = 2.0
_BOOT_TIME_ERROR_SECONDS = 5.0
# Without an interval, as with `--ssh` without a hub: how long a machine counts as running.
_DEFAULT_TIMEOUT_SECONDS = 900.0
NEW_MACHINE_ID = "`rm -f /etc/machine-id /var/lib/dbus/machine-id && systemd-machine-id-setup`"
"""The command that makes a clone a machine of its own."""
JOIN_AS_NEW = (
    f"{NEW_MACHINE_ID}, remove credential.json from the state folder of its agent, and start the "
    "agent with the line that `fleet-smi hub join-command` prints"
)
"""The same for a clone whose agent pushes: it needs a credential of its own, too."""
_NOT_IN_AN_ID = compile_pattern(r"[^0-9A-Za-z._:-]+")
_MAX_ID_LENGTH = 160


class Evidence(Struct, frozen=True, gc=False):
    """The identity of a machine as one report shows it; `booted_at` is by the hub's clock.

    `round` numbers the polls of a command that runs without a hub: all reports of one round
    were taken at the same time.
    """

    via: Via
    at: float
    name: str
    boot_id: str | None
    run_id: str | None
    addresses: tuple[str, ...]
    uuids: frozenset[str]
    booted_at: float | None
    round: int | None = None


def evidence_of(snapshot: Snapshot, at: float, via: Via, round: int | None = None) -> Evidence:
    """Return the evidence of a snapshot that was taken at `at`."""
    booted_at = snapshot.host.booted_at
    # The uptime is a difference of the node's own clock, which may be wrong.
    uptime = None if booted_at is None else snapshot.taken_at - booted_at
    return Evidence(
        via=via,
        at=at,
        name=snapshot.name,
        boot_id=snapshot.boot_id,
        run_id=snapshot.run_id,
        addresses=snapshot.host.addresses,
        uuids=frozenset([gpu.uuid for gpu in snapshot.gpus if not gpu.uuid_is_made]),
        booted_at=None if uptime is None else at - uptime,
        round=round,
    )


def differs(one: Evidence, other: Evidence) -> bool:
    """Return whether two reports are of two machines, or of one before and after a change."""
    if one.boot_id and other.boot_id and one.boot_id != other.boot_id:
        return True
    gpus, addresses = _gpus_differ(one, other), _addresses_differ(one, other)
    # One run of an agent may see its address change, or its only GPU exchanged.
    if one.run_id is not None and one.run_id == other.run_id:
        return gpus and addresses
    # A container and its host have different addresses and the same GPUs.
    return gpus or (addresses and not one.uuids & other.uuids)


def _gpus_differ(one: Evidence, other: Evidence) -> bool:
    return bool(one.uuids and other.uuids) and one.uuids.isdisjoint(other.uuids)


def _addresses_differ(one: Evidence, other: Evidence) -> bool:
    both = bool(one.addresses and other.addresses)
    return both and set(one.addresses).isdisjoint(other.addresses)


def may_join_as(running: Evidence, joining: Evidence) -> bool:
    """Return whether a machine that joins may be one that is reporting its id now.

    It has to know the boot. Of a machine that reports none, it has to have an address. A virtual
    machine that was copied while it ran has the boot of another, but neither name nor address.
    """
    is_elsewhere = _addresses_differ(running, joining)
    if running.boot_id is None:
        return bool(running.addresses) and not is_elsewhere
    is_copy = running.name != joining.name and is_elsewhere
    return running.boot_id == joining.boot_id and not is_copy


class Machine:
    """One machine: its evidence, and how long it has been reporting with it.

    `key` is the `report_key` that it was last resolved by, `owner` the first route that its node
    id came by. `rival` is the evidence of a report that differs from its own: from before a reboot,
    or of a route that may not report for it.
    """

    __slots__ = ("at", "evidence", "key", "node_id", "owner", "rival", "seen", "since", "until")

    def __init__(self, node_id: str, evidence: Evidence, timeout: float | None) -> None:
        self.node_id = node_id
        self.owner: Via | None = None
        self.rival: Evidence | None = None
        self.key: tuple[object, ...] = ()
        self.seen = False
        """Whether it has reported since the hub was started."""
        self.at = self.until = -inf
        self.replace_evidence(evidence, timeout)

    def replace_evidence(self, evidence: Evidence, timeout: float | None) -> None:
        """Adopt the evidence of a machine that changed, or of another one."""
        self.evidence = evidence
        self.since = evidence.at
        self.at = -inf
        self.observe(evidence.at, timeout)

    def refresh_evidence(self, evidence: Evidence, timeout: float | None) -> None:
        """Adopt the evidence of a later report of the same machine."""
        if evidence.at >= self.at:
            self.evidence = evidence
        self.observe(evidence.at, timeout)

    def observe(self, at: float, timeout: float | None) -> None:
        """Note that it was running at `at`; it counts as running for `timeout` seconds more."""
        if at > self.at:
            self.at = at
            self.until = at + (_DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout)

    def shift_times(self, seconds: float) -> None:
        """Move all times, because the hub's clock was set."""
        self.at, self.until, self.since = (
            self.at + seconds,
            self.until + seconds,
            self.since + seconds,
        )
        self.evidence = _shifted(self.evidence, seconds)
        self.rival = None if self.rival is None else _shifted(self.rival, seconds)

    def runs_beside(self, evidence: Evidence) -> bool:
        """Return whether a report that differs from it shows that two machines run now."""
        own = self.evidence
        if evidence.at > self.until:
            return False
        if evidence.round is not None and evidence.round == own.round and evidence.via != own.via:
            return True
        if evidence.at <= self.since:
            return False  # it may have been buffered before this machine changed
        # A reboot begins after the last report before it. More than the boot has to differ: a
        # clock that was set between two boots shifts the times of buffered reports.
        booted_before = (
            evidence.booted_at is not None
            and evidence.booted_at < self.at - _BOOT_TIME_ERROR_SECONDS
            and evidence.boot_id != own.boot_id
        )
        return booted_before and (_gpus_differ(own, evidence) or _addresses_differ(own, evidence))

    def was(self, evidence: Evidence) -> bool:
        """Return whether a report is of what this machine was before it seemed to change."""
        rival = self.rival
        return rival is not None and rival.at <= self.since and not differs(rival, evidence)

    def forget_rival(self, at: float) -> None:
        """Forget what it was before a change, once that has not reported for long."""
        if self.rival is not None and at > self.since + _DEFAULT_TIMEOUT_SECONDS:
            self.rival = None

    def outlives_rival(self, evidence: Evidence) -> bool:
        """Return whether its next report shows that its rival was another machine all along."""
        return self.rival is not None and self.since < self.rival.at < evidence.at


def is_other_host(machines: Iterable[Machine], joining: Evidence) -> bool:
    """Return whether a machine that joins has neither a boot nor the name of any of these."""
    known = [machine.evidence for machine in machines]
    boots = {evidence.boot_id for evidence in known}
    return not boots & {None, joining.boot_id} and joining.name not in {each.name for each in known}


def _shifted(evidence: Evidence, seconds: float) -> Evidence:
    booted_at = None if evidence.booted_at is None else evidence.booted_at + seconds
    return replace(evidence, at=evidence.at + seconds, booted_at=booted_at)


def closest(machines: Sequence[Machine], evidence: Evidence) -> Machine:
    """Return the machine that has most in common with a report."""
    return max(machines, key=lambda machine: affinity(machine.evidence, evidence))


def affinity(one: Evidence, other: Evidence) -> tuple[int, ...]:
    """Return how much two reports have in common, the strongest ties first."""
    return (
        one.run_id is not None and one.run_id == other.run_id,
        len(one.uuids & other.uuids),
        # All nodes push to one address: that route says nothing about a machine.
        one.via == other.via and one.via.source != "push",
        len({*one.addresses} & {*other.addresses}),
        one.name == other.name,
    )


def is_clone_id(node_id: str, reported_id: str) -> bool:
    """Return whether a node id was made by `suffixed_id` from the id that a machine reports."""
    return node_id.startswith(f"{reported_id}@")


def suffixed_id(
    node_id: str, evidence: Evidence, others: Iterable[Evidence], taken: set[str]
) -> str:
    """Return an id for one more machine of a node id: "5fec…@gpu02", the same after a reboot.

    It is never one of those `taken`.
    """
    # Here, because it loads OpenSSL, and commands about one machine have no use for it.
    from hashlib import blake2s

    others = list(others)
    suffixes = [] if evidence.via.source == "push" else [evidence.via.target]
    if evidence.name not in {other.name for other in others}:
        suffixes.append(evidence.name)
    used = {address for other in others for address in other.addresses}
    suffixes += [address for address in evidence.addresses if address not in used]
    stable = "".join(sorted(evidence.uuids)) or evidence.boot_id or evidence.name
    suffixes.append(blake2s(stable.encode("utf-8", "replace"), digest_size=4).hexdigest())
    safe = (_NOT_IN_AN_ID.sub("-", suffix).strip("-") for suffix in suffixes)
    ids = [f"{node_id}@{suffix}"[:_MAX_ID_LENGTH] for suffix in safe if suffix]
    # From the number of those taken: one of them may have been removed since, so it goes on.
    numbers = (f"-{number}" for number in count(len(taken)))
    numbered = (f"{ids[-1][: _MAX_ID_LENGTH - len(number)]}{number}" for number in numbers)
    return next(each for each in chain(ids, numbered) if each not in taken)


def report_key(snapshot: Snapshot, via: Via, round: int | None) -> tuple[object, ...]:
    """Return what is equal in two reports of a machine that did not change."""
    return (
        snapshot.node_id,
        via.source,
        via.target,
        snapshot.boot_id,
        snapshot.run_id,
        snapshot.host.addresses,
        round,
    )
