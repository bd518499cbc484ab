"""Generate the Grafana boards: `python monitoring/boards.py` rewrites `monitoring/grafana/*.json`.

The queries are of the metrics of a hub's `/metrics`, which remote write sends under the same
names. A test runs every one on a real Prometheus, and fails when a file is not up to date.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from monitoring.panels import (
    DATASOURCE,
    Panel,
    coloured_by_state,
    place,
    row,
    series,
    stat,
    state_timeline,
    table,
    target,
)

FOLDER = Path(__file__).with_name("grafana")
_GPUS = 'node=~"$node",model=~"$model"'
_NODE = 'node="$node"'
_HELD = f'count(fleet_smi_gpu_state{{{_GPUS},state="held"}}) or vector(0)'


def overview() -> Panel:
    """The whole fleet: what is free, what is wrong, every GPU."""
    by_gpu = "sum by (node, gpu, model)"
    panels = [
        *[
            stat(
                state,
                f'count(fleet_smi_gpu_state{{{_GPUS},state="{state}"}}) or vector(0)',
                colour=colour,
                width=3,
            )
            for state, colour in _shown_states()
        ],
        stat("nodes reporting", 'sum(fleet_smi_node_up{node=~"$node"})', width=3),
        stat("GPU power", f"sum(fleet_smi_gpu_power_watts{{{_GPUS}}})", "watt", width=3),
        coloured_by_state(
            series(
                "GPUs by state",
                target(f"count by (state) (fleet_smi_gpu_state{{{_GPUS}}})", "{{state}}"),
                stacked=True,
            )
        ),
        series(
            "Mean utilisation of all GPUs, and of those in use",
            target(f"avg(fleet_smi_gpu_busy_ratio{{{_GPUS}}})", "all"),
            target(
                f"avg(fleet_smi_gpu_busy_ratio{{{_GPUS}}} "
                'and on (node_id, uuid) fleet_smi_gpu_state{state=~"busy|held"})',
                "in use",
            ),
            unit="percentunit",
        ),
        row("Needs attention"),
        table(
            "Broken GPUs",
            {
                "": target(
                    f"sum by (node, gpu, model, fault) (fleet_smi_gpu_fault{{{_GPUS}}})",
                    instant=True,
                )
            },
            {},
            width=12,
            height=6,
        ),
        table(
            "Silent nodes, and time since their last report",
            {
                "age": target(
                    'sum by (node) (fleet_smi_node_age_seconds{node=~"$node"} '
                    "and on (node_id) (fleet_smi_node_up == 0))",
                    instant=True,
                )
            },
            {"age": "s"},
            width=12,
            height=6,
        ),
        series(
            "GPUs held and idle",
            target(_HELD, "held"),
            target(
                f"count(fleet_smi_gpu_idle_seconds{{{_GPUS}}} > 4 * 3600) or vector(0)",
                "idle for more than 4 hours",
            ),
            width=8,
        ),
        series(
            "GPUs that heat slows down",
            target(f"sum by (node) (fleet_smi_gpu_thermal_slowdown{{{_GPUS}}})", "{{node}}"),
            width=8,
        ),
        series(
            "Uncorrectable memory errors",
            target(f"sum by (node) (fleet_smi_gpu_ecc_uncorrected_total{{{_GPUS}}})", "{{node}}"),
            width=8,
        ),
        row("Every GPU"),
        table(
            "GPUs",
            {
                "": target(
                    f"sum by (node, gpu, model, state) (fleet_smi_gpu_state{{{_GPUS}}})",
                    instant=True,
                ),
                "busy": _instant(by_gpu, "busy_ratio"),
                "memory": target(
                    f"{by_gpu} (fleet_smi_gpu_memory_used_bytes{{{_GPUS}}} "
                    f"/ fleet_smi_gpu_memory_total_bytes{{{_GPUS}}})",
                    instant=True,
                ),
                "temperature": _instant(by_gpu, "temperature_celsius"),
                "power": _instant(by_gpu, "power_watts"),
                "users": _instant(by_gpu, "users"),
                "idle": _instant(by_gpu, "idle_seconds"),
            },
            {
                "busy": "percentunit",
                "memory": "percentunit",
                "temperature": "celsius",
                "power": "watt",
                "idle": "s",
            },
            height=14,
        ),
    ]
    variables = [_label_variable("node", "node_up"), _label_variable("model", "gpu_state")]
    return _board("overview", "fleet-smi: overview", panels, variables)


def node() -> Panel:
    """One node: its GPUs over time, and the machine around them."""
    panels = [
        state_timeline("GPUs", _NODE, width=24, height=8),
        _by_gpu("Utilisation", "busy_ratio", "percentunit"),
        _by_gpu("Memory in use", "memory_used_bytes", "bytes"),
        _by_gpu("Power", "power_watts", "watt"),
        _by_gpu("Temperature", "temperature_celsius", "celsius"),
        _by_gpu("SM clock", "sm_clock_hertz", "hertz"),
        _by_gpu("Processes", "processes", "short"),
        _by_gpu("Idle time of its processes", "idle_seconds", "s"),
        series(
            "Slowed down by heat, or by hardware",
            target(f"sum by (gpu) (fleet_smi_gpu_thermal_slowdown{{{_NODE}}})", "{{gpu}} heat"),
            target(
                f"sum by (gpu) (fleet_smi_gpu_hardware_slowdown{{{_NODE}}})", "{{gpu}} hardware"
            ),
        ),
        series(
            "Memory errors, in the last hour",
            target(
                f"sum by (gpu) (increase(fleet_smi_gpu_ecc_corrected_total{{{_NODE}}}[1h]))",
                "{{gpu}} corrected",
            ),
            target(
                f"sum by (gpu) (increase(fleet_smi_gpu_ecc_uncorrected_total{{{_NODE}}}[1h]))",
                "{{gpu}} uncorrectable",
            ),
        ),
        series(
            "Energy, in kWh of the last hour",
            target(
                # Of the power, which all cards report; few have a counter of energy.
                f"sum by (gpu) (avg_over_time(fleet_smi_gpu_power_watts{{{_NODE}}}[1h])) / 1000",
                "{{gpu}}",
            ),
        ),
        row("The machine"),
        series(
            "CPU and memory",
            target(f"sum(fleet_smi_node_cpu_ratio{{{_NODE}}})", "CPU"),
            target(
                f"sum(fleet_smi_node_memory_used_bytes{{{_NODE}}}) "
                f"/ sum(fleet_smi_node_memory_total_bytes{{{_NODE}}})",
                "memory",
            ),
            unit="percentunit",
        ),
        series("Load", target(f"sum(fleet_smi_node_load1{{{_NODE}}})", "1 minute")),
        series(
            "Time since its last report",
            target(f"max(fleet_smi_node_age_seconds{{{_NODE}}})", "age"),
            unit="s",
            width=8,
            height=6,
        ),
        series(
            "Reports that never arrived, and collectors that fail",
            target(f"max(fleet_smi_node_missing_reports{{{_NODE}}})", "missing reports"),
            target(f"max(fleet_smi_node_failed_collectors{{{_NODE}}})", "failed collectors"),
            width=8,
            height=6,
        ),
        table(
            "Versions",
            {
                "": target(
                    f"max by (driver, cuda, kernel, agent) (fleet_smi_node_info{{{_NODE}}})",
                    instant=True,
                )
            },
            {},
            width=8,
            height=6,
        ),
    ]
    chosen = _label_variable("node", "node_up") | {"multi": False, "includeAll": False}
    del chosen["allValue"], chosen["current"]
    return _board("node", "fleet-smi: node", panels, [chosen])


def people() -> Panel:
    """Who has the GPUs, who holds them idle, and the GPU-hours of the chosen time."""
    users = 'user=~"$user"'

    def hours(name: str) -> str:
        # A user without a GPU has no series: a mean over time would leave those times out.
        summed = f"sum_over_time(fleet_smi_{name}{{{users}}}[$__range:$__interval])"
        return f"sum by (user) ({summed}) * $__interval_ms / 3600000"

    panels = [
        stat("people with GPUs", f"count(fleet_smi_user_gpus{{{users}}} > 0)"),
        stat("GPUs in use", f"sum(fleet_smi_user_gpus{{{users}}})"),
        stat("held idle", f"sum(fleet_smi_user_idle_gpus{{{users}}})", colour="#d29922"),
        stat("GPU-hours", f"sum({hours('user_gpus')})", "none"),
        stat("of these idle", f"sum({hours('user_idle_gpus')})", "none", "#d29922"),
        stat(
            "share idle",
            f"sum({hours('user_idle_gpus')}) / sum({hours('user_gpus')})",
            "percentunit",
            "#d29922",
        ),
        series(
            "GPUs by person",
            target(f"sum by (user) (fleet_smi_user_gpus{{{users}}})", "{{user}}"),
            stacked=True,
            width=24,
        ),
        series(
            "GPUs held idle by person",
            target(f"sum by (user) (fleet_smi_user_idle_gpus{{{users}}} > 0)", "{{user}}"),
            stacked=True,
            width=24,
        ),
        table(
            "People",
            {
                "GPUs now": target(f"sum by (user) (fleet_smi_user_gpus{{{users}}})", instant=True),
                "idle now": target(
                    f"sum by (user) (fleet_smi_user_idle_gpus{{{users}}})", instant=True
                ),
                "GPU-hours": target(hours("user_gpus"), instant=True),
                "idle GPU-hours": target(hours("user_idle_gpus"), instant=True),
            },
            {},
            height=12,
        ),
    ]
    return _board("people", "fleet-smi: people", panels, [_label_variable("user", "user_gpus")])


def _shown_states() -> list[tuple[str, str]]:
    from monitoring.panels import STATES

    return [(state, colour) for state, colour in STATES.items() if state not in ("leased",)]


def _instant(by: str, metric: str) -> Panel:
    return target(f"{by} (fleet_smi_gpu_{metric}{{{_GPUS}}})", instant=True)


def _by_gpu(title: str, metric: str, unit: str) -> Panel:
    query = f"sum by (gpu) (fleet_smi_gpu_{metric}{{{_NODE}}})"
    return series(title, target(query, "{{gpu}}"), unit=unit)


def _label_variable(label: str, metric: str) -> Panel:
    query = f"label_values(fleet_smi_{metric}, {label})"
    return {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "variable"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _board(name: str, title: str, panels: list[Panel], variables: list[Panel]) -> Panel:
    source = {
        "name": "datasource",
        "label": "data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "default", "value": "default"},
    }
    others = {
        "type": "dashboards",
        "title": "fleet-smi",
        "tags": ["fleet-smi"],
        "icon": "external link",
        "tooltip": "",
        "url": "",
        "asDropdown": False,
        "targetBlank": False,
        "includeVars": True,
        "keepTime": True,
    }
    return {
        "uid": f"fleet-smi-{name}",
        "title": title,
        "tags": ["fleet-smi"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [others],
        "templating": {"list": [source, *variables]},
        "panels": place(panels),
    }


BOARDS = {"overview": overview, "node": node, "people": people}


def render(board: Panel) -> str:
    """Return a board as the text of its file."""
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def queries(board: Panel) -> list[tuple[str, str]]:
    """Return the title of the panel and the query, for every query of a board."""
    found: list[tuple[str, str]] = []
    panels: list[dict[str, Any]] = board["panels"]
    for each in panels:
        found += [(each["title"], one["expr"]) for one in each.get("targets", ())]
    return found


if __name__ == "__main__":
    for file_name, make in BOARDS.items():
        (FOLDER / f"{file_name}.json").write_text(render(make()), encoding="utf-8")
