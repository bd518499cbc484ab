"""The verdict cases of broken, silent, sleeping and closed GPUs, through the simulated driver."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from fleet_smi.node.reader import Deadlines
from fleet_smi.terminal.view.holder import holder_variants
from sim.scenario import MIB, Scenario, SimGpu
from tests.machines import SimulatedMachine, UserProcesses, require_root, wait_until
from tests.model.verdict.driver_cases import (
    MINUTES_12,
    assert_verdict,
    busy,
)
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.verdicts import note_texts


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (SimGpu(faults={"*": "lost"}), "fell off the bus"),
        (SimGpu(faults={"**": "lost"}), "fell off the bus"),
        (SimGpu(faults={"*": "reset-required"}), "requires reset"),
        (SimGpu(remapped_failed=True), "could not be remapped"),
        (SimGpu(recovery="gpu-reset"), "recovery"),
        (SimGpu(recovery="node-reboot"), "Reboot"),
        (
            SimGpu(remapped_corrected=None, recovery=None, ecc_uncorrected_volatile=3),
            "3 uncorrectable memory errors",
        ),
    ],
)
def test_case_19_what_needs_repair_is_broken(
    machine: SimulatedMachine, gpu: SimGpu, reason: str
) -> None:
    machine.set_scenario(gpu)
    assert_verdict(machine.verdict(), "broken", reason)


def test_case_19_who_was_on_a_gpu_that_is_lost_stays_visible(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    require_root()
    used = busy(people.start(user="games"), util_gpu=95)
    machine.set_scenario(used)
    machine.poll()
    machine.set_scenario(replace(used, faults={"*": "lost"}))
    for at in (60, 120):
        gpu = machine.gpu(at)
        assert_verdict(gpu.verdict, "broken", "fell off the bus")
        assert "Was busy (games)" in gpu.verdict.reason
        assert "games" in holder_variants(gpu)[0]


def test_case_20_a_driver_that_does_not_answer_breaks_every_gpu(machine: SimulatedMachine) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0", "0000:11:00.0")
    hung = SimGpu(faults={"PowerUsage": "never"})
    machine.set_scenario(Scenario(gpus=[SimGpu(), hung]))
    machine.deadlines = Deadlines(call=8.0, initialisation=60.0)
    gpus = machine.poll().nodes[0].gpus
    assert [gpu.verdict.state for gpu in gpus] == ["broken", "broken"]
    assert re.match(r"driver slow: \d+ s so far", gpus[0].verdict.reason)

    # By the real clock: since when it has not answered is.
    def passed() -> float:
        return time.time() - machine.start + 1

    wait_until(lambda: not machine.verdict(passed()).reason.startswith("driver slow"))
    assert re.match(r"driver not answering since \d\d:\d\d\. ", machine.verdict(passed()).reason)
    machine.set_scenario(Scenario(gpus=[SimGpu(), SimGpu()]))
    wait_until(lambda: machine.verdict(passed()).state == "free")


def test_case_20_persistence_mode_is_named_where_the_initialisation_is_slow(
    machine: SimulatedMachine,
) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0")
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "slow=8000"}))
    reason = machine.verdict().reason
    assert re.match(r"driver slow: \d+ s so far\. Persistence mode is off", reason)
    wait_until(lambda: machine.verdict().state == "free")


def test_case_21_a_driver_that_does_not_match_its_library_is_unknown(
    machine: SimulatedMachine,
) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0", version="590.48.01")
    machine.set_scenario(Scenario(gpus=[SimGpu()], driver="595.12.00", init="mismatch"))
    gpu = machine.gpu()
    assert_verdict(gpu.verdict, "unknown", "590.48.01")
    assert "do not match: reload the driver or reboot" in gpu.verdict.reason
    assert gpu.name == "NVIDIA H100 80GB HBM3"


def test_case_22_a_gpu_that_was_there_before_is_missing(machine: SimulatedMachine) -> None:
    machine.set_scenario(Scenario(gpus=[SimGpu(), SimGpu(uuid="GPU-gone")]))
    machine.poll()
    machine.set_scenario(Scenario(gpus=[SimGpu()]))
    gone = next(gpu for gpu in machine.poll(240).nodes[0].gpus if gpu.uuid == "GPU-gone")
    assert_verdict(gone.verdict, "broken", "")


def test_case_23_a_silent_node_has_no_free_gpu(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(Scenario(gpus=[busy(people.start(), util_gpu=90), SimGpu()]))
    machine.poll(0, interval=2)
    gpus = machine.view(240).nodes[0].gpus
    assert [gpu.verdict.state for gpu in gpus] == ["unknown", "unknown"]
    assert "silent for" in gpus[0].verdict.reason
    assert "was busy" in gpus[0].verdict.reason


def test_case_24_a_sleeping_gpu_is_free_and_not_woken(machine: SimulatedMachine) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0", asleep=True)
    # Whoever opens the device would wait for ever: sleeping, it must not be touched.
    machine.set_scenario(Scenario(gpus=[SimGpu()], faults={"nvmlInit": "never"}))
    assert_verdict(machine.verdict(), "free", "asleep; not woken")


def test_case_25_a_closed_gpu_is_leased(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(compute_mode="prohibited"))
    assert_verdict(machine.verdict(), "leased", "closed by the administrator")


def test_case_29_an_impossible_value_is_unknown_and_the_rest_is_judged(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(
        SimGpu(
            memory_used=4 * MIB,
            faults={"UtilizationRates": "value=4294967295", "Temperature": "value=4294967295"},
        )
    )
    gpu = machine.gpu()
    assert gpu.busy_percent is None
    assert gpu.temperature_celsius is None
    assert "out of range" in gpu.unread["busy_percent"]
    assert gpu.verdict.state == "free"


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"remapped_pending": True}, "reset when idle: remapped rows wait for a reset"),
        ({"retired_pending": True}, "reset when idle: retired memory pages wait for a reset"),
        ({"remapped_pending": True, "recovery": "drain-and-reset"}, "reset when idle: remapped"),
        ({"recovery": "drain-p2p"}, "reset when idle: "),
        ({"ecc_uncorrected_volatile": 2}, "2 uncorrectable memory errors since boot"),
    ],
)
def test_cases_33_and_34_what_can_wait_is_a_note(
    machine: SimulatedMachine, fields: dict[str, Any], note: str
) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB, **fields))
    verdict = machine.verdict()
    assert_verdict(verdict, "free", "nobody on it")
    assert [words.startswith(note) for words in note_texts(verdict)] == [True]


def test_case_40_a_thermal_slowdown_is_a_note(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start(), util_gpu=95, throttle="hw-thermal"))
    verdict = machine.watch(MINUTES_12)
    assert verdict.state == "busy"
    assert note_texts(verdict) == ["throttled: thermal, 100 % of the last 10 min"]
