"""The alert rules: each fires on series that are wrong for long enough, and not before."""

import subprocess
from pathlib import Path

import yaml

from tests.machines import require_program

RULES = Path(__file__).parents[2] / "monitoring/prometheus/alerts.yml"
_GPU = 'node="n",node_id="i",gpu="0",uuid="u",model="H100"'
# The series of each alert, one sample a minute, and the minute in which it fires.
CASES: dict[str, tuple[dict[str, str], int]] = {
    "FleetSmiHubDown": ({"fleet_smi_hub_listeners": "1x60"}, 6),
    "FleetSmiHubProblem": ({'fleet_smi_hub_problem{problem="disk"}': "0 1x60"}, 8),
    "FleetSmiHubFault": ({"fleet_smi_hub_faults_total": "0x10 1x60"}, 13),
    "FleetSmiSamplesLost": ({"fleet_smi_hub_otlp_dropped_samples_total": "0x10 5x60"}, 13),
    "FleetSmiNodeSilent": ({'fleet_smi_node_up{node="n"}': "1 0x60"}, 8),
    "FleetSmiManyNodesSilent": (
        {"fleet_smi_nodes": "10x60", "fleet_smi_nodes_reporting": "10 7x60"},
        8,
    ),
    "FleetSmiCollectorFailing": ({'fleet_smi_node_failed_collectors{node="n"}': "0 1x60"}, 20),
    "FleetSmiGpuLost": ({f'fleet_smi_gpu_fault{{{_GPU},fault="lost"}}': "_ 1x60"}, 5),
    "FleetSmiGpuNeedsReset": ({f'fleet_smi_gpu_fault{{{_GPU},fault="needs_reset"}}': "_ 1x60"}, 8),
    "FleetSmiDriverFault": ({f'fleet_smi_gpu_fault{{{_GPU},fault="not_answering"}}': "_ 1x60"}, 8),
    "FleetSmiMemoryErrors": (
        {f"fleet_smi_gpu_ecc_uncorrected_total{{{_GPU}}}": "2x10 3x60"},
        13,
    ),
    "FleetSmiResetPending": ({f"fleet_smi_gpu_reset_pending{{{_GPU}}}": "_ 1x90"}, 70),
    "FleetSmiThermalSlowdown": ({f"fleet_smi_gpu_thermal_slowdown{{{_GPU}}}": "0x10 1x60"}, 30),
    "FleetSmiHardwareSlowdown": ({f"fleet_smi_gpu_hardware_slowdown{{{_GPU}}}": "0x10 1x60"}, 30),
    "FleetSmiGhostMemory": ({f'fleet_smi_gpu_state{{{_GPU},state="ghost"}}': "_ 1x60"}, 40),
    "FleetSmiGpuHeldIdle": (
        {
            f"fleet_smi_gpu_idle_seconds{{{_GPU}}}": "14300+60x60",
            f'fleet_smi_gpu_state{{{_GPU},state="held"}}': "1x60",
        },
        10,
    ),
    "FleetSmiPersonHoldsIdle": ({'fleet_smi_user_idle_gpus{user="bob"}': "1 4x300"}, 250),
    "FleetSmiNoneFree": ({'fleet_smi_gpus{state="free"}': "3 0x200"}, 130),
}


def firing(alert: str, minute: int, count: int) -> dict[str, object]:
    query = f'count by (alertname) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
    labels = f'{{alertname="{alert}"}}'
    samples = [{"labels": labels, "value": count}] if count else []
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": samples}


def test_every_alert_fires_on_what_lasts_and_not_before(tmp_path: Path) -> None:
    require_program("promtool")
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert list(CASES) == [rule["alert"] for group in groups for rule in group["rules"]]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": text} for name, text in series.items()],
            "promql_expr_test": [firing(alert, 1, 0), firing(alert, minute, 1)],
        }
        for alert, (series, minute) in CASES.items()
    ]
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_says_what_happened_and_what_to_do() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "description"} == rule["annotations"].keys()
