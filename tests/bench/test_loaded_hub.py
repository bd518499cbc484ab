"""A hub under load: its companion scripts exist under the names they are started by."""

from pathlib import Path

import pytest

from bench import agent, cluster_smi, hub_peers, loaded_hub, probes


@pytest.mark.parametrize(
    "script",
    [
        loaded_hub._LISTENERS,
        agent._PROBE,
        probes._PROBE,
        cluster_smi._PORT,
        hub_peers._SERVER,
        hub_peers._IMPORT_LOAD,
    ],
)
def test_every_script_that_is_started_by_path_exists(script: Path) -> None:
    assert script.is_file()
