"""Panels of Grafana boards as plain values: the parts that all boards share."""

from typing import Any

Panel = dict[str, Any]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
STATES = {
    "free": "#3fb950",
    "leased": "#58a6ff",
    "busy": "#a371f7",
    "held": "#d29922",
    "ghost": "#8b949e",
    "broken": "#f85149",
    "unknown": "#6e7681",
}
"""Every state with its colour on the page; red is for what is broken alone."""


def target(query: str, legend: str = "", *, instant: bool = False, ref: str = "A") -> Panel:
    """One query of a panel."""
    found: Panel = {"datasource": DATASOURCE, "expr": query, "legendFormat": legend, "refId": ref}
    if instant:
        found |= {"instant": True, "range": False, "format": "table"}
    return found


def panel(kind: str, title: str, *targets: Panel, width: int = 12, height: int = 8) -> Panel:
    """A panel without a place, which `place` gives it."""
    return {
        "type": kind,
        "title": title,
        "datasource": DATASOURCE,
        "targets": [{**each, "refId": chr(65 + at)} for at, each in enumerate(targets)],
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {},
    }


def stat(title: str, query: str, unit: str = "short", colour: str = "text", **size: int) -> Panel:
    """One number, with the line of its past below."""
    made = panel("stat", title, target(query), **{"width": 4, "height": 4, **size})
    made["fieldConfig"]["defaults"] = {
        "unit": unit,
        "color": {"mode": "fixed", "fixedColor": colour},
        "decimals": 0 if unit == "short" else 1,
        "noValue": "–",
    }
    made["options"] = {"graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return made


def series(
    title: str, *targets: Panel, unit: str = "short", stacked: bool = False, **size: int
) -> Panel:
    """Lines over time; gaps stay gaps."""
    made = panel("timeseries", title, *targets, **size)
    custom: Panel = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "spanNulls": False}
    if stacked:
        custom |= {"stacking": {"mode": "normal"}, "fillOpacity": 60, "lineWidth": 0}
    made["fieldConfig"]["defaults"] = {"unit": unit, "min": 0, "custom": custom}
    if unit == "percentunit":
        made["fieldConfig"]["defaults"]["max"] = 1
    made["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return made


def coloured_by_state(made: Panel) -> Panel:
    """Give the series named like states their colours."""
    made["fieldConfig"]["overrides"] = [
        {
            "matcher": {"id": "byName", "options": state},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for state, colour in STATES.items()
    ]
    return made


def table(title: str, columns: dict[str, Panel], units: dict[str, str], **size: int) -> Panel:
    """One row per set of labels; `columns` names the value of each query."""
    names = list(columns)
    made = panel("table", title, *columns.values(), **{"width": 24, **size})
    values = {f"Value #{chr(65 + at)}": name for at, name in enumerate(names)}
    if len(names) == 1:
        values = {"Value": names[0]}
    made["transformations"] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {"excludeByName": {"Time": True}, "renameByName": values},
        },
    ]
    made["fieldConfig"]["defaults"] = {"custom": {"filterable": True}, "noValue": "–"}
    made["fieldConfig"]["overrides"] = [
        {"matcher": {"id": "byName", "options": name}, "properties": _cell(unit)}
        for name, unit in units.items()
    ]
    return made


def _cell(unit: str) -> list[Panel]:
    shown: list[Panel] = [{"id": "unit", "value": unit}]
    if unit == "percentunit":
        gauge = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        shown += [
            {"id": "custom.cellOptions", "value": gauge},
            {"id": "min", "value": 0},
            {"id": "max", "value": 1},
        ]
    return shown


def state_timeline(title: str, selector: str, **size: int) -> Panel:
    """One row per GPU, coloured by its state over time."""
    numbered = " or ".join(
        f'{number} * fleet_smi_gpu_state{{{selector},state="{state}"}}'
        for number, state in enumerate(STATES, 1)
    )
    query = f"max by (node, gpu) ({numbered})"
    made = panel("state-timeline", title, target(query, "{{gpu}}"), **size)
    mappings = {
        str(number): {"text": state, "color": colour, "index": number}
        for number, (state, colour) in enumerate(STATES.items(), 1)
    }
    made["fieldConfig"]["defaults"] = {
        "mappings": [{"type": "value", "options": mappings}],
        "custom": {"fillOpacity": 80, "lineWidth": 0},
    }
    made["options"] = {"mergeValues": True, "showValue": "never", "rowHeight": 0.8}
    return made


def row(title: str) -> Panel:
    """A heading above the panels that follow."""
    return {"type": "row", "title": title, "panels": [], "gridPos": {"w": 24, "h": 1}}


def place(panels: list[Panel]) -> list[Panel]:
    """Give panels their ids and places, from left to right in rows of 24 columns."""
    x = y = highest = 0
    for number, each in enumerate(panels, 1):
        size = each["gridPos"]
        if x + size["w"] > 24:
            x, y, highest = 0, y + highest, 0
        each["id"] = number
        each["gridPos"] = {"x": x, "y": y, **size}
        x, highest = x + size["w"], max(highest, size["h"])
    return panels
