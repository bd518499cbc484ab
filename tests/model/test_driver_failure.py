"""Failure of a driver as a whole, as distinct from single GPUs and from machines without any."""

import pytest

from fleet_smi.model.driver_failure import driver_error
from fleet_smi.model.snapshot import CollectorRun, Fault, FaultKind
from tests.builders import gpu, snapshot


def failed(name: str, detail: str = "not read") -> CollectorRun:
    return CollectorRun(name=name, outcome="failed", seconds=0.1, detail=detail, fault="unreadable")


@pytest.mark.parametrize("kind", ["mismatch", "not_answering", "unreadable", "missing"])
def test_a_driver_that_fails_has_no_gpu_that_can_be_read(kind: FaultKind) -> None:
    listed = gpu(fault=Fault(kind=kind, detail="x"))
    runs = (failed("processes"), failed("nvidia", "do not match"))
    assert driver_error(snapshot(listed, runs=runs)) == "do not match"
    assert driver_error(snapshot(runs=runs)) == "do not match"
    assert driver_error(snapshot(listed, gpu(1), runs=runs)) is None


def test_a_gpu_that_is_lost_is_no_failure_of_its_driver() -> None:
    lost = gpu(fault=Fault(kind="lost", detail="fell off the bus"))
    assert driver_error(snapshot(lost, runs=(failed("nvidia"),))) is None


@pytest.mark.parametrize("name", ["host", "hostname", "network", "processes", "cluster-smi"])
def test_a_machine_without_gpus_has_no_driver_that_fails(name: str) -> None:
    assert driver_error(snapshot()) is None
    assert driver_error(snapshot(runs=(failed(name),))) is None


def test_a_failure_without_a_reason_is_named() -> None:
    assert driver_error(snapshot(runs=(failed("amd", ""),))) == "amd could not be read"
