"""`fleet-smi reserve`: book, list, change and cancel from the command line."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import gpu
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def local(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the user who runs a hub with one node of four GPUs."""
    with ThreadedHub(tmp_path / "state") as hub:
        cards = [gpu(index) for index in range(4)]
        hub.join_and_report(snapshot_now("gpu03", *cards, interval_seconds=600.0))
        yield {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "TZ": "Europe/Berlin",
            "FLEET_SMI_HUB_STATE": str(hub.folder),
            "FLEET_SMI_CLIENT_HUB": hub.url,
        }


def test_a_booking_is_made_listed_changed_and_cancelled(local: dict[str, str]) -> None:
    reserve = ("reserve", "--node", "gpu03", "-n", "3", "--user", "maria")
    done = run_fleet_smi(*reserve, "--from", "now", "--for", "2h", "--note", "rerun", env=local)
    assert done.returncode == 0, done.stderr
    booking_id = done.stdout.split()[0]
    assert "3 GPUs of gpu03 for maria" in done.stdout
    listed = run_fleet_smi("reserve", "list", env=local).stdout
    assert booking_id in listed and "maria" in listed and "not used yet" in listed
    free = run_fleet_smi("free", "-v", env=local)
    assert "free, but booked by maria until" in free.stdout
    refused = run_fleet_smi("free", "-n", "2", env=local)
    assert_error_line(refused, 1, "3 are booked by maria until")
    again = run_fleet_smi(*reserve[:-1], "omar", "--for", "1h", env=local)
    assert again.returncode == 1
    assert "booked by maria, 1 left" in again.stderr and "--anyway" in again.stderr
    assert "fit from" in again.stderr
    edited = run_fleet_smi("reserve", "edit", booking_id, "-n", "1", "--for", "3h", env=local)
    assert edited.returncode == 0, edited.stderr
    (one,) = run_json("reserve", "list", env=local)["reservations"]
    assert (one["gpus"], round(one["ends_at"] - one["starts_at"])) == (1, 10800)
    assert run_fleet_smi("reserve", "cancel", booking_id, env=local).returncode == 0
    assert run_fleet_smi("reserve", env=local).stdout == "nothing is booked\n"
    assert run_fleet_smi("free", "-n", "4", env=local).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--node", "gpu03"), "how long?"),
        (("--for", "2h"), "give the node"),
        (("--node", "gpu03", "--from", "soon", "--for", "1h"), "not a point in time"),
        (("--node", "gpu03", "--for", "1h", "--until", "18:00"), "not both"),
        (("--node", "gpu03", "--for", "1h", "-n", "0"), "must be 1 or more"),
        (("--node", "gpu99", "--for", "1h", "--user", "x"), "no node is named gpu99"),
        (("--node", "gpu03", "--for", "1h", "--user", "x", "-n", "9"), "gpu03 has 4 GPUs"),
        (("edit", "nothing", "-n", "2"), "no booking"),
        (("cancel", "nothing"), "no booking has the id nothing"),
    ],
)
def test_a_mistake_is_one_line(
    local: dict[str, str], arguments: tuple[str, ...], message: str
) -> None:
    assert_error_line(run_fleet_smi("reserve", *arguments, env=local), 2, message)
