"""`fleet_smi.lease`: GPUs taken for a block of a Python program."""

import multiprocessing
from pathlib import Path

import pytest

import fleet_smi
from fleet_smi import api
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.local import SharedFleet
from sim.scenario import Scenario, SimGpu
from tests.machines import SimulatedMachine
from tests.node.leases.held import held_uuids


@pytest.fixture(autouse=True)
def lease_dir(machine: SimulatedMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A machine with two free GPUs, and leases of its own."""
    machine.set_scenario(Scenario(gpus=[SimGpu(), SimGpu()]))
    monkeypatch.setenv("FLEET_SMI_NODE_LEASE_DIR", str(tmp_path / "leases"))
    monkeypatch.setattr(api, "_machine", SharedFleet())
    yield tmp_path / "leases"
    if api._machine._fleet is not None:
        api._machine._fleet.close()


def test_gpus_are_leased_within_the_block(lease_dir: Path) -> None:
    with fleet_smi.lease(n=1, min_free="30GiB", note="notebook") as first:
        assert [gpu.index for gpu in first] == [0]
        assert [gpu.verdict.state for gpu in fleet_smi.gpus()] == ["leased", "free"]
        assert [gpu.index for gpu in fleet_smi.free()] == [1]
        with fleet_smi.lease() as second:
            assert [gpu.index for gpu in second] == [1]
            with pytest.raises(Unmet, match="no GPU is free"), fleet_smi.lease(timeout=0):
                raise AssertionError("nothing is left")
    assert held_uuids(lease_dir) == []
    assert [gpu.verdict.state for gpu in fleet_smi.gpus()] == ["free", "free"]


def test_an_exception_in_the_block_releases_the_gpus(lease_dir: Path) -> None:
    with pytest.raises(ZeroDivisionError), fleet_smi.lease(n=2):
        raise ZeroDivisionError
    assert held_uuids(lease_dir) == []


def test_a_fork_that_lives_on_does_not_keep_the_gpus(lease_dir: Path) -> None:
    context = multiprocessing.get_context("fork")
    event = context.Event()
    with fleet_smi.lease():
        child = context.Process(target=event.wait)
        child.start()
    assert held_uuids(lease_dir) == []
    with fleet_smi.lease(n=2, timeout=0):
        pass
    event.set()
    child.join()


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="request one or more"), fleet_smi.lease(n=0):
        pass
