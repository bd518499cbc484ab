"""The fleet of the demonstration: a lab of 12 nodes, with all that can happen to a GPU."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import GIB, MIB
from fleet_smi.simulation.cards import A100, H100, L40S, RTX_4090, at_rest
from fleet_smi.simulation.chance import dice
from fleet_smi.simulation.seats import (
    Custom,
    Followed,
    Lost,
    Seat,
    Slice,
    Sliced,
    Still,
    Visited,
    ghost,
    instance,
)
from fleet_smi.simulation.story import PAST_SECONDS, Chassis, Node, Story, node
from fleet_smi.simulation.tenants import Occupied, Tenant, tenant
from fleet_smi.simulation.work import (
    EXPLORING,
    FINE_TUNING,
    FITTING,
    NOTEBOOK,
    PEOPLE,
    PRETRAINING,
    SERVING,
    SWEEPING,
    Manager,
    Work,
    hyphenated,
)

SILENT_AFTER_SECONDS = 20.0

_HOUR = 3600.0
_DGX = Chassis(card=H100, cpu_count=224, memory_total_bytes=2016 * GIB)
_HGX = Chassis(card=A100, cpu_count=128, memory_total_bytes=1008 * GIB)
_SERVER = Chassis(card=L40S, cpu_count=96, memory_total_bytes=755 * GIB)
_DESK = Chassis(card=RTX_4090, cpu_count=32, memory_total_bytes=126 * GIB)
_EARLIER_VISITS_SECONDS = (2.0 * _HOUR, 9.0 * _HOUR)
_MANAGERS: dict[Chassis, Manager] = {_SERVER: "pod", _DESK: "bare"}


def demo(*, seed: int, began: float, interval_seconds: float = 2.0) -> Story:
    """The lab as it is from `began` on, with its past."""
    return Story(tuple(_nodes(seed, began)), interval_seconds)


class _Bench:
    """One machine whose cards are handed out one by one as its seats are told."""

    def __init__(self, seed: int, name: str, chassis: Chassis, began: float) -> None:
        self.key, self.began, self.card = f"demo-{seed}-{name}", began, chassis.card
        self.manager = _MANAGERS.get(chassis, "slurm")
        self._name, self._chassis = name, chassis
        self._thrown, self._count = dice(self.key, "cards"), 0

    def next_card(self) -> Gpu:
        self._count += 1
        return at_rest(self.card, f"GPU-{hyphenated(self._thrown)}", self._count - 1)

    def since(self, hours: float, seats: Sequence[tuple[Gpu, Seat]]) -> list[Seat]:
        """Cards that stand so since a while ago; before, people came for hours at a time."""
        key = f"{self.key}-{seats[0][0].index}-earlier"
        custom = Custom(
            key=key,
            period_seconds=dice(key, "period").uniform(*_EARLIER_VISITS_SECONDS),
            cards=len(seats),
            keenness=0.85,
            manager=self.manager,
            sleep=True,
        )
        began = self.began - hours * _HOUR
        return [
            Followed(Visited(self.card, card, custom, rank), began, seat)
            for rank, (card, seat) in enumerate(seats)
        ]

    def job(self, user: str, work: Work, hours: float, cards: int = 1) -> list[Seat]:
        """One job of somebody's that began long ago and goes on."""
        key = f"{self.key}-{self._count}"
        taken = [
            (card, Occupied(self.card, card, (self.tenant(key, user, work, hours, rank),)))
            for rank, card in enumerate(self._cards(cards))
        ]
        return self.since(hours, taken)

    def tenant(self, key: str, user: str, work: Work, hours: float, rank: int = 0) -> Tenant:
        begins_at = self.began - hours * _HOUR
        memory = self.card.memory_total_bytes
        return tenant(key, user, work, memory, begins_at, manager=self.manager, rank=rank)

    def visited(self, period_seconds: float, cards: int = 1, keenness: float = 0.8) -> list[Seat]:
        """Cards that people come to and leave, all of them at once."""
        key = f"{self.key}-{self._count}"
        custom = Custom(
            key=key,
            period_seconds=period_seconds,
            cards=cards,
            keenness=keenness,
            manager=self.manager,
        )
        return self.coming_and_going(custom, self._cards(cards))

    def coming_and_going(self, custom: Custom, cards: Sequence[Gpu]) -> list[Seat]:
        """Cards that are changed about often enough to be watched for an hour."""
        seats = [(card, Visited(self.card, card, custom, rank)) for rank, card in enumerate(cards)]
        return self.since(PAST_SECONDS / _HOUR, seats)

    def _cards(self, count: int) -> list[Gpu]:
        return [self.next_card() for _ in range(count)]

    def node(
        self,
        seats: Sequence[Seat],
        place: str,
        silent_from: float | None = None,
        away_hours: tuple[float, float] | None = None,
    ) -> Node:
        room, _, rack = place.partition("/")
        return node(
            self._name,
            self._chassis,
            seats,
            key=self.key,
            began=self.began,
            labels={"room": room, "rack": rack} if rack else {"room": room},
            silent_from=silent_from,
            away=away_hours and (self._ago(away_hours[0]), self._ago(away_hours[1])),
        )

    def _ago(self, hours: float) -> float:
        return self.began - hours * _HOUR


def _nodes(seed: int, began: float) -> Iterator[Node]:
    def bench(name: str, chassis: Chassis) -> _Bench:
        return _Bench(seed, name, chassis, began)

    yield _pretraining(bench("dgx01", _DGX))
    yield _serving(bench("dgx02", _DGX))
    yield _broken(bench("dgx03", _DGX))
    yield _held(bench("hgx01", _HGX))
    yield _sliced(bench("hgx02", _HGX))
    yield _haunted(bench("hgx03", _HGX))
    yield _render(bench("ada01", _SERVER))
    yield _render(bench("ada02", _SERVER))
    yield _falls_silent(bench("ada03", _SERVER))
    for owner, period in (("amara", 170.0), ("jonas", 230.0), ("sofia", 310.0)):
        yield _desk(bench(f"desk-{owner}", _DESK), owner, period)


def _pretraining(at: _Bench) -> Node:
    return at.node(at.job("maria", PRETRAINING, 52.0, cards=8), "hall-1/r01")


def _serving(at: _Bench) -> Node:
    seats = at.job("kenji", PRETRAINING, 7.5, cards=4)
    seats += at.job("llm-gateway", SERVING, 310.0, cards=2)
    return at.node([*seats, *at.visited(260.0), *at.visited(340.0)], "hall-1/r01")


def _broken(at: _Bench) -> Node:
    seats = at.visited(420.0, cards=4) + at.visited(150.0)
    card, hours = at.next_card(), 0.7
    seats += at.since(hours, [(card, Lost(card, at.began - hours * _HOUR))])
    return at.node([*seats, *at.visited(190.0, cards=2, keenness=0.6)], "hall-1/r02")


def _held(at: _Bench) -> Node:
    seats = at.job("lucas", NOTEBOOK, 26.0) + at.visited(210.0, cards=2)
    return at.node([*seats, *at.job("priya", FINE_TUNING, 3.2)], "hall-1/r03")


def _sliced(at: _Bench) -> Node:
    slices = [
        _slice(at, number, profile, user)
        for number, (profile, user) in enumerate(
            (("3g.20gb", "chen"), ("2g.10gb", "nadia"), ("1g.5gb", "tomas"), ("1g.5gb", None))
        )
    ]
    cut = Sliced(at.card, at.next_card(), slices)
    return at.node([cut, *at.visited(280.0), *at.visited(240.0, cards=2)], "hall-1/r03")


def _slice(at: _Bench, number: int, profile: str, user: str | None) -> Slice:
    part = instance(at.key, number, profile)
    if user is None:
        return Slice(instance=part)
    begins_at, memory = at.began - (2.0 + 5.0 * number) * _HOUR, part.memory_total_bytes or 0
    key = f"{at.key}-slice-{number}"
    somebody = tenant(key, user, EXPLORING, memory, begins_at, manager=at.manager)
    return Slice(instance=part, tenant=somebody)


def _haunted(at: _Bench) -> Node:
    """Two people on one card, memory that nobody accounts for, and one that nobody wants."""
    two = (
        at.tenant(f"{at.key}-sweep", "oskar", SWEEPING, 5.0),
        at.tenant(f"{at.key}-fit", "fatima", FITTING, 1.4),
    )
    card = at.next_card()
    alone, together = Occupied(at.card, card, two[:1]), Occupied(at.card, card, two)
    shared = Followed(alone, two[1].begins_at, together)
    seats = at.since(5.0, [(card, shared)]) + at.visited(200.0)
    card = at.next_card()
    seats += at.since(9.0, [(card, ghost(at.card, card, 31 * GIB + 212 * MIB))])
    unwanted = Still(at.card, at.next_card())
    return at.node([*seats, unwanted], "hall-1/r03", away_hours=(81.0, 72.0))


def _render(at: _Bench) -> Node:
    seats = [*at.visited(130.0), *at.visited(180.0, cards=2), *at.visited(250.0)]
    return at.node(seats, "hall-2/r11")


def _falls_silent(at: _Bench) -> Node:
    seats = at.job("chen", FINE_TUNING, 11.0, cards=2) + at.visited(160.0, cards=2)
    return at.node(seats, "hall-2/r12", silent_from=at.began + SILENT_AFTER_SECONDS)


def _desk(at: _Bench, owner: str, period: float) -> Node:
    """A workstation: its first card has a screen and is its owner's."""
    custom = Custom(key=at.key, period_seconds=period, keenness=0.6, people=(owner,))
    first = at.coming_and_going(custom, [_with_screen(at.next_card(), owner, at.began)])
    return at.node([*first, *at.visited(period * 1.4)], "office")


def _with_screen(resting: Gpu, owner: str, began: float) -> Gpu:
    since = began - 200.0 * _HOUR
    shown = (
        _graphics(1874, owner, "/usr/lib/xorg/Xorg vt2 -noreset", 187 * MIB, since),
        _graphics(2210, owner, "/usr/bin/gnome-shell", 96 * MIB, since),
    )
    used = sum(one.gpu_memory_bytes or 0 for one in shown) + (resting.memory_used_bytes or 0)
    return replace(resting, memory_used_bytes=used, processes=shown)


def _graphics(pid: int, user: str, command: str, memory_bytes: int, started_at: float) -> Process:
    return Process(
        pid=pid,
        kind="graphics",
        gpu_memory_bytes=memory_bytes,
        user=user,
        uid=PEOPLE[user],
        name=command.split(maxsplit=1)[0].rpartition("/")[2],
        command=command,
        started_at=started_at,
        cpu_percent=1.4,
        host_memory_bytes=210 * MIB,
    )
