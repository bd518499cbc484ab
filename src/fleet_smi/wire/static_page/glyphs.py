"""SVG icons of the states: each has its own shape, so that colour is never needed."""

from functools import cache

from fleet_smi.model.fleet import STATES, State
from fleet_smi.wire.static_page.markup import Html, element, fragment

_LINE = 'fill="none" stroke="currentColor" stroke-width="2"'
_SHAPES: dict[State, str] = {
    "free": f'<circle cx="6" cy="6" r="4" {_LINE}/>',
    "leased": f'<path d="M6 1.4 10.6 6 6 10.6 1.4 6Z" {_LINE}/>',
    "busy": '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>',
    "held": '<path d="M2.4 1.5h2.6v9H2.4zM7 1.5h2.6v9H7z" fill="currentColor"/>',
    "ghost": f'<circle cx="6" cy="6" r="4" {_LINE} stroke-dasharray="2.1 2.1"/>',
    "broken": f'<path d="m2 2 8 8m0-8-8 8" {_LINE}/>',
    "unknown": f'<path d="M3.6 3.8a2.4 2.4 0 1 1 3.6 2.1Q6 6.6 6 8M6 9.4v1.8" {_LINE}/>',
}


def svg_symbols() -> Html:
    """Return every shape as a symbol, which the icons of the page refer to."""
    symbols = (
        element("symbol", Html(_SHAPES[state]), id=state, viewBox="0 0 12 12") for state in STATES
    )
    return element("svg", *symbols, width=0, height=0, aria_hidden="true", class_="shapes")


@cache
def glyph(state: State) -> Html:
    """Return the icon of a state; its name is shown beside it."""
    return element("svg", element("use", href=f"#{state}"), class_="glyph", aria_hidden="true")


def legend() -> Html:
    """Return the list of all icons with their states."""
    keys = (
        element("li", glyph(state), fragment(f" {state}"), class_=f"is-{state}") for state in STATES
    )
    return element("ul", *keys, class_="legend")
