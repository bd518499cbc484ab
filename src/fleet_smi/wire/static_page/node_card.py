"""One node as a card: its name, how old its data are, what is odd about it, and its GPUs."""

from collections import Counter
from collections.abc import Iterator

from fleet_smi.model.fleet import NodeView
from fleet_smi.wire.static_page.formatting import UNKNOWN, PageClock, duration_or_unknown, pluralize
from fleet_smi.wire.static_page.gpu_row import render_rows
from fleet_smi.wire.static_page.markup import Html, element


def render_card(node: NodeView, anchor: str, clock: PageClock) -> Html:
    """The card; a silent node's is grey and says for how long."""
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
        *(element("p", words, class_="odd") for words in _oddities(node)),
        element("ul", *(row for gpu in node.gpus for row in render_rows(gpu, clock))),
        class_=" ".join(_kinds(node, free)),
        id=anchor,
    )


def _kinds(node: NodeView, free: int) -> Iterator[str]:
    yield "node"
    if node.silent or node.age_seconds is None:
        yield "silent"
    if free:
        yield "has-free"


def _devices(node: NodeView) -> str:
    counts = Counter(gpu.name or "GPU" for gpu in node.gpus)
    return ", ".join(f"{count} × {name}" for name, count in counts.items()) or "no GPU"


def _age(node: NodeView, clock: PageClock) -> str:
    """When its data were taken, and how old they are: by the time that they arrived."""
    if node.age_seconds is None:
        return "never heard"
    at, age = clock.format_time(clock.now - node.age_seconds), duration_or_unknown(node.age_seconds)
    if node.silent:
        return f"silent for {age}" + ("" if at == UNKNOWN else f", last heard {at}")
    return f"{at}, {age} old"


def _oddities(node: NodeView) -> Iterator[str]:
    yield from node.warnings
    yield from node.failures
    if node.missing_reports:
        yield f"{pluralize(node.missing_reports, 'report')} never arrived"
    yield from node.limits
