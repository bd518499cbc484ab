"""A hub under load: its companion scripts exist under the names they are started by."""

from pathlib import Path

import pytest

from bench import agent, cluster_smi, loaded_hub, probes


@pytest.mark.parametrize(
    "script", [loaded_hub._LISTENERS, agent._PROBE, probes._PROBE, cluster_smi._PORT]
)
def test_every_script_that_is_started_by_path_exists(script: Path) -> None:
    assert script.is_file()
