"""Privacy of command lines in snapshots and views."""

from typing import Any

import pytest
from hypothesis import given

from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.privacy import mask_commands, redact_snapshot
from fleet_smi.model.snapshot import Process
from tests.builders import gpu, instance, process, snapshot
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET

SECRET = process(command="app --password=hunter2", name="app --token=hunter2")


def processes(view: FleetView | NodeView) -> list[Process]:
    nodes = view.nodes if isinstance(view, FleetView) else (view,)
    gpus = [gpu for node in nodes for gpu in node.gpus]
    parts: list[Any] = [*gpus, *(part for gpu in gpus for part in gpu.instances)]
    return [process for part in parts for process in part.processes or ()]


def test_secrets_are_redacted_everywhere_in_a_snapshot() -> None:
    original = snapshot(
        gpu(0, processes=(SECRET,)), gpu(1, instances=(instance(processes=(SECRET,)),))
    )
    shown = redact_snapshot(original)
    assert shown.gpus[0].processes[0].command == "app --password=•••"  # type: ignore[index]
    assert shown.gpus[1].instances[0].processes[0].command == "app --password=•••"  # type: ignore[index]
    assert shown.gpus[0].processes[0].name == "app --token=•••"  # type: ignore[index]
    assert redact_snapshot(shown) is shown


@given(FLEET)
def test_commands_are_masked_by_visibility(view: FleetView) -> None:
    assert mask_commands(view, "full") is view
    named = mask_commands(view, "name")
    assert [each.command for each in processes(named)] == [None] * len(processes(view))
    assert [each.name for each in processes(named)] == [each.name for each in processes(view)]
    scripts = mask_commands(view, "script")
    assert [each.name for each in processes(scripts)] == [each.name for each in processes(view)]
    hidden = mask_commands(view, "hidden")
    assert all(each.command is None and each.name is None for each in processes(hidden))
    assert hidden.summary == view.summary
    assert tuple(mask_commands(node, "hidden") for node in view.nodes) == hidden.nodes


@pytest.mark.parametrize("commands", ["script", "name", "hidden"])
def test_an_unchanged_view_is_not_copied(commands: CommandVisibility) -> None:
    once = mask_commands(samples.lab(), commands)
    assert mask_commands(once, commands) is once
    assert mask_commands(once.nodes[0], commands) is once.nodes[0]
