"""Render the fleet as one static HTML page: style inline, no script, no other request."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from fleet_smi.model.fleet import STATES, FleetView, JudgedDevice, NodeView
from fleet_smi.model.units import pluralize
from fleet_smi.wire.static_page.formatting import PageClock
from fleet_smi.wire.static_page.glyphs import glyph, legend, svg_symbols
from fleet_smi.wire.static_page.head import page_head
from fleet_smi.wire.static_page.markup import Html, element, fragment
from fleet_smi.wire.static_page.node_card import render_card
from fleet_smi.wire.static_page.themes import DEFAULT_THEME

__all__ = ["REFRESH_SECONDS", "render_page"]

REFRESH_SECONDS = 60


def render_page(
    view: FleetView,
    *,
    style: str,
    to_local_time: Callable[[float], datetime],
    interval_seconds: float | None = None,
    error: str | None = None,
    downloads: Sequence[str] = (),
    colour_key: str = DEFAULT_THEME.colour_key,
) -> str:
    """Return the whole page, as of `view.taken_at`.

    `interval_seconds` is the time until the next page, `error` why this one has no new data.
    `colour_key` explains the colours of `style`.
    """
    clock = PageClock(view.taken_at, to_local_time)
    body = element(
        "body",
        svg_symbols(),
        _top(view, clock, interval_seconds),
        _banner(error),
        element("main", _free(view, clock), _nodes(view, clock)),
        _foot(downloads, colour_key),
    )
    summary = view.summary
    parts = f", {_free_parts(summary.free_instances)}" if summary.free_instances else ""
    title = f"{summary.free} free of {pluralize(summary.gpus, 'GPU')}{parts}"
    head = page_head(title, style, refresh_seconds=REFRESH_SECONDS)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _top(view: FleetView, clock: PageClock, interval_seconds: float | None) -> Html:
    counts = (
        element(
            "li",
            glyph(state),
            element("b", str(getattr(view.summary, state))),
            f" {state}",
            _count_of_parts(view) if state == "free" else None,
            class_=f"is-{state}",
        )
        for state in STATES
        if getattr(view.summary, state) or state == "free"
    )
    return element(
        "header",
        element("h1", "GPUs"),
        element("ul", *counts, class_="counts"),
        element("p", *_status_line(view, clock, interval_seconds), class_="made"),
        class_="top",
    )


def _count_of_parts(view: FleetView) -> Html | None:
    count = view.summary.free_instances
    if not count:
        return None
    return element("span", f" +{count} MIG")


def _free_parts(count: int) -> str:
    return pluralize(count, "free MIG instance")


def _status_line(
    view: FleetView, clock: PageClock, interval_seconds: float | None
) -> Iterator[str]:
    summary = view.summary
    yield element("b", f"{summary.nodes_reporting} of {pluralize(summary.nodes, 'node')}")
    yield " reporting · as of "
    yield element("time", clock.format_datetime(clock.now))
    if interval_seconds is not None:
        yield f" · next at {clock.format_time(clock.now + interval_seconds)}"


def _banner(error: str | None) -> Html | None:
    if error is None:
        return None
    text = "This is the last known state; whether a GPU is free now is unknown."
    return element(
        "p", element("b", f"No new data: {error}. "), text, class_="banner", role="alert"
    )


def _free(view: FleetView, clock: PageClock) -> Html:
    """Return the free GPUs of every node; they come first on the page."""
    nodes = tuple(enumerate(view.nodes))
    gpus = [entry for number, node in nodes for entry in _free_gpus(node, number, clock)]
    parts = [entry for number, node in nodes for entry in _free_instances(node, number, clock)]
    shown = (*gpus, *parts)
    listed = element("ul", *shown) if shown else element("p", "No GPU is known to be free.")
    return element("section", element("h2", "Free now"), listed, class_="free-now")


def _free_gpus(node: NodeView, number: int, clock: PageClock) -> Iterator[Html]:
    """Yield the whole GPUs of a node that are free, as one entry."""
    free = [gpu for gpu in node.gpus if gpu.verdict.state == "free" and not gpu.instances]
    if free:
        indices = ", ".join(str(gpu.index) for gpu in free)
        models = ", ".join(dict.fromkeys(gpu.name or "GPU" for gpu in free))
        yield _free_entry(node, number, f"GPU {indices}", models, free, clock)


def _free_instances(node: NodeView, number: int, clock: PageClock) -> Iterator[Html]:
    """Yield each GPU of a node that has free MIG instances."""
    for gpu in node.gpus:
        free = [part for part in gpu.instances if part.verdict.state == "free"]
        if free:
            profiles = ", ".join(part.profile or "instance" for part in free)
            where = f"GPU {gpu.index}, MIG {profiles}"
            yield _free_entry(node, number, where, gpu.name or "GPU", free, clock)


def _free_entry(
    node: NodeView,
    number: int,
    where: str,
    models: str,
    free: Sequence[JudgedDevice],
    clock: PageClock,
) -> Html:
    shortest = clock.format_age(max(device.verdict.since for device in free))
    link = element(
        "a",
        glyph("free"),
        element("b", str(len(free)), class_="how-many"),
        element("span", element("b", node.name), f" {where}", class_="where"),
        element("span", f"{models} · for {shortest}", class_="what"),
        href=f"#{_anchor(number)}",
    )
    return element("li", link)


def _nodes(view: FleetView, clock: PageClock) -> Html:
    if not view.nodes:
        return element("p", "No node has reported yet.", class_="empty")
    cards = (render_card(node, _anchor(number), clock) for number, node in enumerate(view.nodes))
    return element("div", *cards, class_="nodes")


def _anchor(number: int) -> str:
    # A number, not the node's name: a name may be anything, and two nodes may share it.
    return f"node-{number}"


def _foot(downloads: Sequence[str], colour_key: str) -> Html:
    key = element("p", f"The coloured part of a row is memory in use; {colour_key}.")
    links = [
        fragment("The same as a table: ", element("a", file, href=file), ". ") for file in downloads
    ]
    generated = element("p", fragment(*links, "Generated by fleet-smi."))
    return element("footer", legend(), key, generated)
