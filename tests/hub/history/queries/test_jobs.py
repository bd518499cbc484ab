"""Occupancies are grouped into jobs."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.queries.jobs import (
    RESTART_WINDOW_SECONDS,
    group_jobs,
    job_start,
    normalize_command,
)
from fleet_smi.model.history import GpuOccupancies
from fleet_smi.model.people import HIDDEN_USER
from tests.hub.history.occupancies import HOUR, START, gpu, gpu_occupancies, occupancy

MINUTE = 1 / 60


def test_one_process_on_two_gpus_is_one_job() -> None:
    both = occupancy()
    (job,) = group_jobs([gpu_occupancies(gpu(0), both), gpu_occupancies(gpu(1), both)])
    assert (job.user, job.command, job.gpus) == ("alice", "python train.py", 2)
    assert (job.start, job.end) == (START, START + 2 * HOUR)
    assert job.sums.gpu_seconds == 4 * HOUR
    assert job.sums.busy_seconds == pytest.approx(3.6 * HOUR)
    assert [part.gpu.index for part in job.parts] == [0, 1]


def test_the_ranks_of_one_command_on_two_nodes_are_one_job() -> None:
    def rank(at: int, node_at: int) -> str:
        return f"python -u train.py --local_rank={at} --node-rank {node_at} --master_port 29{at}00"

    found = [
        gpu_occupancies(gpu(at, node), occupancy(rank(at, node_at), pid=at))
        for node_at, node in enumerate(("gpu01", "gpu02"))
        for at in range(4)
    ]
    (job,) = group_jobs(found)
    assert job.gpus == 8
    assert {part.gpu.node for part in job.parts} == {"gpu01", "gpu02"}
    assert job.places == tuple(f"{node}:{at}" for node in ("gpu01", "gpu02") for at in range(4))


@pytest.mark.parametrize(
    "one, other",
    [
        ("train --local_rank=0", "train --local-rank=0"),
        ("python train.py --lr 1e-4", "python train.py --lr 3e-4"),
        ("python train.py --lora_rank=8", "python train.py --lora_rank=16"),
        ("python train.py --gpu 0", "python train.py --gpu 1"),
        ("python train.py --seed 1", "python eval.py --seed 1"),
    ],
)
def test_other_commands_are_other_jobs(one: str, other: str) -> None:
    assert (
        len(
            group_jobs(
                [gpu_occupancies(gpu(0), occupancy(one)), gpu_occupancies(gpu(1), occupancy(other))]
            )
        )
        == 2
    )


@pytest.mark.parametrize(
    "one, other",
    [
        ("python t.py --local_rank=0", "python t.py --local_rank 1"),
        ("python t.py --rank 0 --x 1", "python t.py --rank 1 --x 1"),
        ("torchrun --rdzv_endpoint=a:1 t.py", "torchrun --rdzv_endpoint=b:2 t.py"),
        ("serve --port 8000 m", "serve --port 8001 m"),
        ("serve --nccl-port=8000 m", "serve --nccl-port=8001 m"),
        ("python -c spawn_main(pipe_handle=7)", "python -c spawn_main(pipe_handle=9)"),
        ("VLLM::Worker_TP0", "VLLM::Worker_TP1"),
        ("python t.py --worker-index 12", "python t.py --worker-index 3"),
    ],
)  # fmt: skip
def test_what_differs_between_workers_does_not_make_another_command(one: str, other: str) -> None:
    assert one != other
    assert normalize_command(one) == normalize_command(other)


def test_other_users_and_times_are_other_jobs() -> None:
    found = group_jobs(
        [
            gpu_occupancies(gpu(0), occupancy(hours=1), occupancy(start=3, pid=2)),
            gpu_occupancies(gpu(1), occupancy(user="bob")),
        ]
    )
    assert sorted(job.user for job in found) == ["alice", "alice", "bob"]
    assert [job.start - START for job in found] == [3 * HOUR, 0, 0]


def test_a_restart_within_a_minute_is_the_same_job() -> None:
    again = occupancy(start=2 + 0.9 * MINUTE, pid=2)
    assert len(group_jobs([gpu_occupancies(gpu(0), occupancy(), again)])) == 1
    late = occupancy(start=2 + 1.1 * MINUTE, pid=2)
    assert len(group_jobs([gpu_occupancies(gpu(0), occupancy(), late)])) == 2


def test_a_job_is_running_while_a_part_of_it_is() -> None:
    (job,) = group_jobs(
        [
            gpu_occupancies(gpu(0), occupancy(hours=1)),
            gpu_occupancies(gpu(1), occupancy(hours=None)),
        ]
    )
    assert job.end is None


def test_the_end_of_a_job_is_certain_if_that_of_its_last_part_is() -> None:
    seen, unseen = occupancy(hours=1), replace(occupancy(hours=2, pid=2), certain=False)
    longer = occupancy(hours=3, pid=3)
    found = [
        group_jobs([gpu_occupancies(gpu(0), *some)])
        for some in ((seen, unseen), (unseen, longer), (unseen,))
    ]
    assert [job.certain for (job,) in found] == [False, True, False]


def test_processes_of_one_slurm_job_are_one_job() -> None:
    steps = [
        occupancy("python prepare.py", hours=1, slurm_job="17"),
        occupancy("python train.py", start=2, hours=4, slurm_job="17"),
    ]
    (job,) = group_jobs([gpu_occupancies(gpu(0), *steps)])
    assert job.command == "python train.py"
    two = [gpu_occupancies(gpu(at), occupancy(slurm_job=str(at))) for at in range(2)]
    assert len(group_jobs(two)) == 2


def test_hidden_processes_are_separate_jobs() -> None:
    hidden = [occupancy(None, user=HIDDEN_USER, pid=pid) for pid in (1, 2)]
    assert (
        len(group_jobs([gpu_occupancies(gpu(0), hidden[0]), gpu_occupancies(gpu(1), hidden[1])]))
        == 2
    )
    assert (
        len(group_jobs([gpu_occupancies(gpu(0), hidden[0]), gpu_occupancies(gpu(1), hidden[0])]))
        == 1
    )


def test_a_bare_program_on_two_nodes_is_two_jobs() -> None:
    found = [gpu_occupancies(gpu(0, node), occupancy("python")) for node in ("gpu01", "gpu02")]
    assert len(group_jobs(found)) == 2
    assert (
        len(group_jobs([gpu_occupancies(gpu(at), occupancy("./a.out", pid=at)) for at in range(4)]))
        == 1
    )


def test_a_job_id_is_stable_and_contains_its_start() -> None:
    first, ever_after = occupancy(hours=None), occupancy(hours=20)
    (early,), (late,) = (
        group_jobs([gpu_occupancies(gpu(0), first)]),
        group_jobs([gpu_occupancies(gpu(0), ever_after)]),
    )
    assert early.id == late.id
    assert job_start(early.id) == START


@pytest.mark.parametrize("text", ["", "-", "zz-1", "12", "fffffffffffff-0", "٣-1"])
def test_text_that_is_not_a_job_id_has_no_start(text: str) -> None:
    assert job_start(text) is None


OCCUPANCIES = st.builds(
    occupancy,
    st.sampled_from([None, "python", "python a.py", "python a.py --rank 1", "python b.py"]),
    user=st.sampled_from(["alice", "bob", HIDDEN_USER]),
    pid=st.integers(1, 3),
    start=st.integers(0, 50).map(lambda tenths: tenths / 10),
    hours=st.none() | st.integers(0, 20).map(lambda tenths: tenths / 10),
    slurm_job=st.none() | st.sampled_from(["1", "2"]),
)
FOUND = st.lists(
    st.builds(
        lambda index, node, parts: gpu_occupancies(gpu(index, node), *parts),
        st.integers(0, 3),
        st.sampled_from(["gpu01", "gpu02"]),
        st.lists(OCCUPANCIES, max_size=5),
    ),
    max_size=5,
)


@given(FOUND)
def test_every_occupancy_is_in_one_job_and_the_sums_add_up(found: list[GpuOccupancies]) -> None:
    made = group_jobs(found)
    parts = [part.occupancy for job in made for part in job.parts]
    given_ones = [one for each in found for one in each.occupancies]
    assert sorted(map(repr, parts)) == sorted(map(repr, given_ones))
    assert sum(job.sums.gpu_seconds for job in made) == pytest.approx(
        sum(one.sums.gpu_seconds for one in given_ones)
    )
    assert len({job.id for job in made}) == len(made)
    for job in made:
        assert {part.occupancy.holder.user for part in job.parts} == {job.user}


@given(FOUND, st.randoms(use_true_random=False))
def test_the_order_of_gpus_changes_no_job(found: list[GpuOccupancies], random: Random) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)

    def ids(occupancies: list[GpuOccupancies]) -> set[tuple[str, int]]:
        return {(job.id, job.gpus) for job in group_jobs(occupancies)}

    assert ids(shuffled) == ids(found)


@given(FOUND)
def test_jobs_of_one_command_are_more_than_a_restart_apart(found: list[GpuOccupancies]) -> None:
    by_key: dict[str, list[tuple[float, float]]] = {}
    for job in group_jobs(found):
        end = float("inf") if job.end is None else job.end
        by_key.setdefault(job.id.partition("-")[2], []).append((job.start, end))
    for spans in by_key.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert start > end + RESTART_WINDOW_SECONDS
