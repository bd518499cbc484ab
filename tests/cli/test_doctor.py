"""`fleet-smi doctor`: its checks and exit code."""

from pathlib import Path

import msgspec
import pytest

from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.sim.fixtures import Simulated


def run_doctor(env: dict[str, str]) -> tuple[int, dict[str, str]]:
    done = run_fleet_smi("doctor", "--json", env=env)
    return done.returncode, {
        finding["id"]: finding["status"] for finding in msgspec.json.decode(done.stdout)["findings"]
    }


def test_a_healthy_machine_passes(simulated: Simulated) -> None:
    code, statuses = run_doctor(simulated(Scenario(gpus=[SimGpu()])))
    assert code == 0
    assert (
        statuses["nvidia.driver"]
        == statuses["gpus.found"]
        == statuses["nvidia.persistence"]
        == "PASS"
    )
    assert "FAIL" not in statuses.values()


@pytest.mark.parametrize(
    ("scenario", "finding", "status"),
    [
        (Scenario(gpus=[SimGpu(persistence=False)]), "nvidia.persistence", "WARN"),
        (Scenario(gpus=[SimGpu(faults={"*": "lost"})]), "gpu.fault", "FAIL"),
        # Of these two only the first confines an error to the process that met it.
        (Scenario(gpus=[SimGpu(ecc_uncorrected_volatile=2)]), "gpu.memory", "WARN"),
        (
            Scenario(gpus=[SimGpu(remapped_corrected=None, ecc_uncorrected_volatile=2)]),
            "gpu.memory",
            "FAIL",
        ),
        (Scenario(gpus=[SimGpu(pcie_width=4)]), "gpu.link", "WARN"),
        (Scenario(init="mismatch"), "nvidia.driver", "FAIL"),
        (Scenario(init="no-permission"), "nvidia.driver", "FAIL"),
        (Scenario(init="no-driver"), "gpus.found", "WARN"),
        (Scenario(gpus=[SimGpu(faults={"Name": "slow=1200"})]), "nvidia.speed", "WARN"),
    ],
)
def test_each_problem_is_found(
    simulated: Simulated, scenario: Scenario, finding: str, status: str
) -> None:
    code, statuses = run_doctor(simulated(scenario))
    assert statuses[finding] == status
    assert code == (1 if "FAIL" in statuses.values() else 0)


def test_a_mismatch_names_both_versions_and_the_remedy(
    simulated: Simulated, tmp_path: Path
) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", version="590.48.01")
    env = simulated(Scenario(driver="595.12.00", init="mismatch"))
    done = run_fleet_smi("doctor", env=env | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")})
    assert done.returncode == 1
    for text in ("590.48.01", "595.12", "reload the driver or reboot"):
        assert text in " ".join(done.stdout.split())
