"""Render one node as a card: name, age of its data, warnings, and GPUs."""

from collections import Counter
from collections.abc import Iterator

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.units import UNKNOWN, format_elapsed, pluralize
from fleet_smi.wire.static_page.formatting import PageClock
from fleet_smi.wire.static_page.gpu_row import render_rows
from fleet_smi.wire.static_page.markup import Html, element


def render_card(node: NodeView, anchor: str, clock: PageClock) -> Html:
    """Return the card; that of a silent node is grey and says for how long."""
    free = sum(gpu.verdict.state == "free" for gpu in node.gpus)
    return element(
        "section",
        element(
            "header",
            element("h2", node.name),
            element("span", f"{free} of {len(node.gpus)} free", class_="count")
            if node.gpus and not node.silent
            else None,
            element("p", _devices(node), class_="devices"),
            element("p", _age(node, clock), class_="age"),
        ),
        *(element("p", text, class_="odd") for text in _warnings(node)),
        element("ul", *(row for gpu in node.gpus for row in render_rows(gpu, clock))),
        class_=" ".join(_classes(node, free)),
        id=anchor,
    )


def _classes(node: NodeView, free: int) -> Iterator[str]:
    yield "node"
    if node.silent or node.age_seconds is None:
        yield "silent"
    if free:
        yield "has-free"


def _devices(node: NodeView) -> str:
    counts = Counter(gpu.name or "GPU" for gpu in node.gpus)
    return ", ".join(f"{count} × {name}" for name, count in counts.items()) or "no GPU"


def _age(node: NodeView, clock: PageClock) -> str:
    """Return when its data arrived, and how old they are; no clock of the node is involved."""
    if node.age_seconds is None:
        return "never reported"
    at, age = clock.format_time(clock.now - node.age_seconds), format_elapsed(node.age_seconds)
    if node.silent:
        return f"silent for {age}" + ("" if at == UNKNOWN else f", last report {at}")
    return f"{at}, {age} old"


def _warnings(node: NodeView) -> Iterator[str]:
    yield from node.warnings
    yield from node.failures
    if node.missing_reports:
        yield f"{pluralize(node.missing_reports, 'report')} never arrived"
    yield from node.limits
