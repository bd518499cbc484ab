"""What becomes of one GPU as the story goes: empty, visited, cut into slices, lost."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Instance
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.cards import Card
from fleet_smi.simulation.chance import dice, wander
from fleet_smi.simulation.tenants import Occupied, Tenant, fan_percent, tenant
from fleet_smi.simulation.work import JOINT_VISITS, PEOPLE, VISITS, Manager, hyphenated

_COOLING_SECONDS = 60.0
_COOLING_DEGREES = 22.0
_HOUR = 3600.0
_AT_NIGHT = 0.45
_STILL_SECONDS = 4.0  # how long the figures of a card at rest stay the same


class Seat(Protocol):
    """The story of one GPU."""

    def gpu(self, at: float) -> Gpu:
        """The GPU as it is read at any moment, past or to come."""


class Still:
    """A card that nobody touches: its memory may be used all the same."""

    def __init__(self, card: Card, resting: Gpu) -> None:
        self._card, self._resting = card, resting
        self._phase = 1000.0 * dice(resting.uuid).random()
        self._step, self._gpu = -1, resting

    def gpu(self, at: float, deserted_seconds: float = _COOLING_SECONDS) -> Gpu:
        """The card at one moment, cooling down if it was left a moment ago."""
        if deserted_seconds < _COOLING_SECONDS:
            return self._at(at, deserted_seconds)
        step = int(at / _STILL_SECONDS)
        if step != self._step:
            self._step, self._gpu = step, self._at(step * _STILL_SECONDS, deserted_seconds)
        return self._gpu

    def _at(self, at: float, deserted_seconds: float) -> Gpu:
        drift = wander(at / 8.0 + self._phase)
        warm = max(0.0, 1.0 - deserted_seconds / _COOLING_SECONDS)
        celsius = self._card.idle_celsius + 3.0 * drift + _COOLING_DEGREES * warm
        return replace(
            self._resting,
            temperature_celsius=float(int(celsius)),
            fan_percent=fan_percent(celsius) if self._card.has_fans else None,
            power_watts=int(self._card.idle_watts * (97.0 + 6.0 * drift + 30.0 * warm)) / 100.0,
        )


def ghost(card: Card, resting: Gpu, used_bytes: int) -> Still:
    """A card whose memory is used and on which no process is to be seen."""
    return Still(card, replace(resting, memory_used_bytes=used_bytes))


class Followed:
    """A card with one story up to a moment, and another from then on."""

    def __init__(self, before: Seat, since: float, after: Seat) -> None:
        self._before, self._since, self._after = before, since, after

    def gpu(self, at: float) -> Gpu:
        """The card as its story of that moment has it."""
        return (self._before if at < self._since else self._after).gpu(at)


class Lost:
    """A card that fell off the bus; all that is still known is what it was."""

    def __init__(self, resting: Gpu, since: float) -> None:
        self._gpu = Gpu(
            uuid=resting.uuid,
            index=resting.index,
            vendor=resting.vendor,
            name=resting.name,
            pci_bus_id=resting.pci_bus_id,
            fault=Fault(
                kind="lost",
                detail="lost: fell off the bus",
                remedy="reboot; if it returns, have the hardware looked at",
                since=since,
            ),
        )

    def gpu(self, at: float) -> Gpu:
        """The same at every moment."""
        return self._gpu


class Custom(Struct, frozen=True, kw_only=True, gc=False):
    """How people come to a group of cards: a turn each `period_seconds`.

    In a turn comes nobody, or somebody who takes every card of the group, at its start,
    and leaves before its end. `keenness` is the chance that somebody does; those who
    `sleep` come less often at night.
    """

    key: str
    period_seconds: float
    cards: int = 1
    people: tuple[str, ...] = tuple(PEOPLE)
    keenness: float = 0.8
    manager: Manager = "bare"
    sleep: bool = False

    def keenness_at(self, moment: float) -> float:
        """The chance that somebody comes then."""
        hour = moment / _HOUR % 24.0
        return self.keenness * (_AT_NIGHT if self.sleep and not 7.0 <= hour < 21.0 else 1.0)


class Visited:
    """A card that people come to and leave; `rank` is its place in its group."""

    def __init__(self, card: Card, resting: Gpu, custom: Custom, rank: int = 0) -> None:
        self._card, self._resting, self._custom, self._rank = card, resting, custom, rank
        self._empty = Still(card, resting)
        self._offset = custom.period_seconds * dice(custom.key).random()
        self._turn: int | None = None
        self._visit: Occupied | None = None
        self._leaves_at = 0.0

    def gpu(self, at: float) -> Gpu:
        """The card at one moment: somebody's, or empty and cooling down."""
        turn = int((at + self._offset) // self._custom.period_seconds)
        if turn != self._turn:
            self._begin(turn)
        if self._visit is None:
            return self._empty.gpu(at)
        if at < self._leaves_at:
            return self._visit.gpu(at)
        return self._empty.gpu(at, at - self._leaves_at)

    def _begin(self, turn: int) -> None:
        custom = self._custom
        thrown = dice(custom.key, turn)
        begins_at = turn * custom.period_seconds - self._offset
        stays = custom.period_seconds * (0.6 + 0.3 * thrown.random())
        self._turn, self._leaves_at, self._visit = turn, begins_at + stays, None
        if thrown.random() < custom.keenness_at(begins_at):
            somebody = tenant(
                custom.key,
                thrown.choice(custom.people),
                thrown.choice(VISITS if custom.cards == 1 else JOINT_VISITS),
                self._card.memory_total_bytes,
                begins_at,
                manager=custom.manager,
                rank=self._rank,
            )
            self._visit = Occupied(self._card, self._resting, (somebody,))


class Slice(Struct, frozen=True, kw_only=True):
    """A MIG instance and who has it, if anybody."""

    instance: Instance
    tenant: Tenant | None = None

    def at(self, moment: float) -> Instance:
        """The instance as it is read at that moment."""
        if self.tenant is None or moment < self.tenant.begins_at:
            return self.instance
        # The driver tells no utilisation of a slice, nor of one process in it.
        process = replace(self.tenant.seen(moment), busy_percent=None)
        used = (self.instance.memory_used_bytes or 0) + (process.gpu_memory_bytes or 0)
        return replace(self.instance, memory_used_bytes=used, processes=(process,))


class Sliced:
    """A card cut into MIG instances."""

    def __init__(self, card: Card, resting: Gpu, slices: Sequence[Slice]) -> None:
        self._card, self._slices = card, tuple(slices)
        self._taken = sum(one.tenant is not None for one in slices) / len(slices)
        self._resting = replace(resting, mig_mode=True, busy_percent=None, memory_busy_percent=None)

    def gpu(self, at: float) -> Gpu:
        """The card and its instances at one moment."""
        instances = tuple([one.at(at) for one in self._slices])
        drift = wander(at / 4.0)
        share = 0.6 * self._taken * (0.8 + 0.2 * drift)
        span = self._card.power_limit_watts - self._card.idle_watts
        degrees = self._card.hot_celsius - self._card.idle_celsius
        return replace(
            self._resting,
            memory_used_bytes=sum([one.memory_used_bytes or 0 for one in instances]),
            temperature_celsius=float(int(self._card.idle_celsius + degrees * share)),
            power_watts=int(100.0 * (self._card.idle_watts + span * share)) / 100.0,
            sm_clock_mhz=self._card.sm_clock_max_mhz,
            throttle_reasons=(),
            instances=instances,
            processes=tuple([each for one in instances for each in one.processes or ()]),
        )


def instance(key: object, number: int, profile: str) -> Instance:
    """An empty MIG instance of a profile such as "2g.10gb"."""
    memory = int(profile.partition(".")[2].removesuffix("gb")) * GIB
    return Instance(
        uuid=f"MIG-{hyphenated(dice(key, 'instance', number))}",
        gpu_instance_id=number + 1,
        compute_instance_id=0,
        profile=profile,
        memory_used_bytes=12 * MIB,
        memory_total_bytes=memory - 256 * MIB,
        processes=(),
    )
