"""Driver branches: which functions each exports, and the structs of one odd release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim import build as building
from sim.scenario import GIB, Scenario, SimGpu, SimProcess, scenario_env
from tests.sim.fixtures import Simulated
from tests.sim.nvml_program import NvmlProgram

FUNCTION_NOT_FOUND = 13
PROCESSES = "N.nvmlDeviceGetComputeRunningProcesses{}(gpu(0))"
MEMORY_V2 = "N.nvmlDeviceGetMemoryInfo(gpu(0), version=N.nvmlMemory_v2)"
TWO = [SimProcess(pid=7, memory=1 * GIB), SimProcess(pid=8, memory=2 * GIB)]


@pytest.mark.parametrize(
    "driver, second, third, memory",
    [
        ("418.87.01", FUNCTION_NOT_FOUND, FUNCTION_NOT_FOUND, FUNCTION_NOT_FOUND),
        ("470.82.01", 0, FUNCTION_NOT_FOUND, FUNCTION_NOT_FOUND),
        ("515.43.04", 0, 0, 0),
    ],
)
def test_newer_functions_are_not_found_in_an_old_driver(
    simulated: Simulated, driver: str, second: int, third: int, memory: int
) -> None:
    with NvmlProgram(simulated(Scenario(driver=driver))) as program:
        assert program.error_code(PROCESSES.format("_v2")) == second
        assert program.error_code(PROCESSES.format("_v3")) == third
        assert program.error_code(MEMORY_V2) == memory
        assert program.evaluate("N.nvmlDeviceGetMemoryInfo(gpu(0)).total") > 0


def test_a_library_of_an_old_branch_lacks_the_symbols_themselves(
    sim_lib: Path, tmp_path: Path
) -> None:
    building.build(tmp_path, 418, objects=sim_lib / "objects")
    Scenario(driver="418.87.01", gpus=[SimGpu(processes=TWO)]).write(tmp_path / "scenario")
    env = os.environ | scenario_env(tmp_path, tmp_path / "scenario")
    with NvmlProgram(env) as program:
        found = program.evaluate(
            "[hasattr(N.nvmlLib, f'nvmlDeviceGetComputeRunningProcesses{v}')"
            " for v in ('', '_v2', '_v3')]"
        )
    assert found == [True, False, False]


def test_one_release_had_longer_process_entries(simulated: Simulated) -> None:
    odd = Scenario(driver="535.54.03", quirks=["wide-v3"], gpus=[SimGpu(processes=TWO)])
    with NvmlProgram(simulated(odd)) as program:
        scrambled = program.evaluate(PROCESSES.format("_v3"))
        right = program.evaluate(PROCESSES.format("_v2"))
    assert [process["pid"] for process in right] == [7, 8]
    assert [process["pid"] for process in scrambled] != [7, 8]


def test_a_function_can_be_left_out() -> None:
    name = "nvmlDeviceGetRunningProcessDetailList"
    assert set(building.exported_functions(535)) - set(
        building.exported_functions(535, (name,))
    ) == {name}


def test_an_up_to_date_build_is_not_repeated(sim_lib: Path) -> None:
    library = sim_lib / "libnvidia-ml.so.1"
    built = library.stat().st_mtime_ns
    subprocess.run([sys.executable, building.__file__, str(sim_lib)], check=True)
    assert library.stat().st_mtime_ns == built


def test_without_a_compiler_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["build.py", str(tmp_path)])
    assert building.main() == 1
    assert capsys.readouterr().err.count("\n") == 1
