"""Running `systemctl` and `useradd`: their error messages."""

import pytest

from fleet_smi.errors import Unmet
from fleet_smi.node.bindings import systemd


def test_a_program_that_ends_well_is_silent() -> None:
    systemd.run(["true"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["false"], "`false` failed: exit code 1"),
        (["sh", "-c", "echo no such unit >&2; exit 5"], "failed: no such unit"),
        (["no-such-program-at-all"], "cannot be run: No such file"),
    ],
)
def test_a_failing_command_keeps_its_message(command: list[str], message: str) -> None:
    with pytest.raises(Unmet) as failed:
        systemd.run(command)
    assert message in str(failed.value)
