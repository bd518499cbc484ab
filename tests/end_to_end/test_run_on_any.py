"""Jobs of several users through `run --on any`, with a node and the hub killed in between.

`python -m tests.end_to_end.many_jobs` is the same with 30 jobs of five users on five nodes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.many_jobs import Batch, run_with_losses
from tests.end_to_end.user_fleet import UserFleet, user_fleet

NODES = ("gpu1", "gpu2")


@pytest.fixture
def fleet(sim_lib: Path) -> Iterator[UserFleet]:
    folder = Path(tempfile.mkdtemp(prefix="fsmi-", dir="/tmp"))
    folder.chmod(0o755)
    with user_fleet(folder, sim_lib, NODES, ("alice", "bob", "carol")) as made:
        made.begin(by_token=("alice",))
        yield made
    shutil.rmtree(folder)


def test_jobs_of_several_users_run_without_a_collision_and_a_node_takes_only_its_own_with_it(
    fleet: UserFleet,
) -> None:
    with closing(Batch(fleet, "jobs", 7, (0.0, 0.5))) as batch:
        outcome = run_with_losses(fleet, batch, "gpu2", 90)
    assert outcome.collisions == []
    assert outcome.order.violations == []
    assert outcome.survived
    lost = outcome.cut_off("gpu2")
    assert outcome.failed == lost, outcome.errors
    assert 1 <= len(lost) <= 2
    ran = {run.job: run for run in outcome.runs}
    for job in set(outcome.codes) - set(lost):
        number = int(job.rpartition("-")[2])
        run = ran[job]
        assert run.ended is not None
        assert run.user == ("alice", "bob", "carol")[number % 3]
        assert all(uuid.startswith(f"GPU-{run.node}-") for uuid in run.uuids)
