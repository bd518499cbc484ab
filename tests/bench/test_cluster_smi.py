"""The benchmark of the cluster-smi port: what it measures, and its failure."""

import os
import sys
from pathlib import Path

import pytest

from bench import cluster_smi
from bench.line_program import LineProgram
from bench.peers import HUB, PEERS, PeerTool
from bench.report import check_budget


def test_the_port_measures_the_cost_of_a_report() -> None:
    line = [sys.executable, str(cluster_smi._PORT)]
    with LineProgram(line, os.environ) as port:
        assert 0 < float(port.request("translate")) < 0.01


def test_a_port_that_does_not_run_misses_its_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Broken(PeerTool):
        """A Python that exits immediately."""

        @property
        def python(self) -> Path:
            program = tmp_path / "python"
            program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
            program.chmod(0o755)
            return program

    monkeypatch.setitem(PEERS, HUB, Broken(name=HUB, version=""))
    measured = {series.label: series for series in cluster_smi.measure(os.environ, 1)}
    assert "broken" in measured[cluster_smi.TRANSLATED].note
    assert check_budget(cluster_smi.PAIRS[0], measured).outcome == "missed"
