"""Themes: the style of each role, as text that Rich parses; with colours of the page, or without.

`dark` and `light` are the page's colours, `terminal` the sixteen of the terminal itself, and
`mono` has none: marks and words say all that colours say.
"""

from fleet_smi.model.fleet import STATES
from fleet_smi.terminal.top.view.cells import LOAD_LEVELS

THEMES = ("dark", "light", "terminal", "mono")

# Of each state: its text, the ground of its cells, and of the part of a cell that is in use.
_DARK = {
    "free": ("#83e9c3", "#0f4230", ("#1b634a",)),
    "leased": ("#8fc0fa", "#10233b", ("#1a3c66",)),
    "busy": ("#efecfb", "#1b1c22", ("#24242e", "#2e2a44", "#3a3263", "#483c80", "#57489c")),
    "held": ("#f7c877", "#2a2110", ("#553e12",)),
    "ghost": ("#f7c877", "#1f1b12", ("#3d3214",)),
    "broken": ("#ffa3a3", "#38161a", ("#5b2026",)),
    "unknown": ("#9ba3ab", "#131517", ("#1e2226",)),
}
_DARK_BASE = {
    "paper": "#0e1012",
    "ink": "#eef0f2",
    "second": "#b0b7be",
    "faint": "#8b939b",
    "line": "#434a51",
    "track": "#434a51",
    "accent": "#eef0f2",
    "busy": "#a08ff0",
}
_LIGHT = {
    "free": ("#04633f", "#cdf0de", ("#a9dfc5",)),
    "leased": ("#0f4f9c", "#e1edfb", ("#bcd7f6",)),
    "busy": ("#1f1a33", "#ecebf0", ("#e2e0ea", "#d8d2ec", "#cbc1ee", "#bdb0ec", "#ab9be6")),
    "held": ("#764500", "#fdf0d3", ("#f7d48a",)),
    "ghost": ("#764500", "#fbf6ea", ("#f3e3b8",)),
    "broken": ("#930d1a", "#fde3e1", ("#f6bdb9",)),
    "unknown": ("#5a6067", "#f1f1ee", ("#e4e4e0",)),
}
_LIGHT_BASE = {
    "paper": "#f5f5f2",
    "ink": "#15171a",
    "second": "#474c52",
    "faint": "#646a71",
    "line": "#b9bab4",
    "track": "#b9bab4",
    "accent": "#15171a",
    "busy": "#6450b5",
}
# As in `paint.py`: grey is faint, not "bright black", which some palettes cannot show.
_TERMINAL = {
    "free": "green",
    "leased": "bright_blue",
    "busy": "magenta",
    "held": "yellow",
    "ghost": "underline yellow",
    "broken": "bold red",
    "unknown": "dim",
}
_MONO = {
    "free": "bold",
    "leased": "",
    "busy": "",
    "held": "italic",
    "ghost": "italic",
    "broken": "bold",
    "unknown": "dim",
}
_PLAIN = {
    "text": "",
    "title": "bold",
    "head": "dim",
    "dim": "dim",
    "rule": "dim",
    "bar": "dim",
    "key": "bold",
    "select": "bold",
    "input": "bold",
    "cursor": "reverse",
    "notice": "reverse",
}


def theme_styles(name: str) -> dict[str, str]:
    """Return the style of each role in a theme."""
    if name == "dark":
        return _coloured(_DARK, _DARK_BASE)
    if name == "light":
        return _coloured(_LIGHT, _LIGHT_BASE)
    states = _TERMINAL if name == "terminal" else _MONO
    return {
        **_PLAIN,
        "warn": "yellow" if name == "terminal" else "bold",
        "good": states["free"],
        **states,
        **{role: states[state] for state in STATES for role in _cell_roles(state)},
    }


def _cell_roles(state: str) -> list[str]:
    return [f"{state}.cell", *[f"{state}.fill{level}" for level in range(LOAD_LEVELS + 1)]]


def _coloured(
    states: dict[str, tuple[str, str, tuple[str, ...]]], base: dict[str, str]
) -> dict[str, str]:
    paper, ink, faint = base["paper"], base["ink"], base["faint"]
    styles = {
        "text": f"{ink} on {paper}",
        "title": f"bold {ink} on {paper}",
        "head": f"{faint} on {paper}",
        "dim": f"{faint} on {paper}",
        "rule": f"{base['line']} on {paper}",
        "bar": f"{base['track']} on {paper}",
        "key": f"bold {ink} on {paper}",
        "select": f"bold {ink} on {paper}",
        "input": f"bold {ink} on {paper}",
        "cursor": f"{paper} on {base['accent']}",
        "notice": f"bold {paper} on {base['accent']}",
        "warn": f"{states['held'][0]} on {paper}",
        "good": f"{states['free'][0]} on {paper}",
    }
    for state, (text, ground, fills) in states.items():
        styles[state] = f"{base['busy'] if state == 'busy' else text} on {paper}"
        styles[f"{state}.cell"] = f"{text} on {ground}"
        for level in range(LOAD_LEVELS + 1):
            fill = fills[min(len(fills), max(1, level)) - 1]
            styles[f"{state}.fill{level}"] = f"{text} on {fill}"
    styles["broken"] = f"bold {styles['broken']}"
    return styles


def style_of(role: str | None, styles: dict[str, str]) -> str:
    """Return the style of a role; `!` before it shows it as chosen, `~` faint."""
    name = role or "text"
    if name.startswith("!"):
        return f"{styles.get(name[1:], styles['text'])} bold reverse"
    if name.startswith("~"):
        return styles["dim"]
    return styles.get(name, styles["text"])
