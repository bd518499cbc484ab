"""Simulated workloads: command lines, and the load pattern each puts on a GPU."""

from random import Random
from typing import Literal

from msgspec import Struct

JobManager = Literal["slurm", "container", "pod", "bare"]

USERS: dict[str, int] = {
    "maria": 1003,
    "kenji": 1007,
    "amara": 1012,
    "jonas": 1015,
    "priya": 1018,
    "lucas": 1021,
    "sofia": 1026,
    "chen": 1031,
    "fatima": 1034,
    "oskar": 1040,
    "nadia": 1044,
    "tomas": 1052,
}
"""Users of the simulated fleet and their user ids."""


class Workload(Struct, frozen=True, kw_only=True, gc=False):
    """One kind of workload.

    It loads for `loading_seconds`, then runs at about `busy_percent`, varying by up to
    `variation_percent`, and pauses every `rest_every_seconds`: a checkpoint, a validation.
    `heat` is the share of the power limit that a GPU draws at full load.
    """

    command: str
    memory_share: tuple[float, float]
    busy_percent: float
    variation_percent: float = 3.0
    variation_seconds: float = 2.0
    rest_every_seconds: float = 3600.0
    rest_seconds: float = 0.0
    rest_percent: float = 0.0
    loading_seconds: float = 9.0
    heat: float = 0.9
    cpu_percent: float = 104.0

    @property
    def program(self) -> str:
        """The program name, as the kernel reports it."""
        return self.command.split(maxsplit=1)[0].rpartition("/")[2]


PRETRAINING = Workload(
    command="python -u train.py --config configs/llama-8b.yaml --fsdp full_shard --bf16",
    memory_share=(0.86, 0.93),
    busy_percent=97.0,
    rest_every_seconds=190.0,
    rest_seconds=9.0,
    rest_percent=24.0,
    heat=0.97,
)
FINE_TUNING = Workload(
    command="python finetune.py --model mistral-7b --lora-rank 64 --batch-size 16",
    memory_share=(0.62, 0.81),
    busy_percent=93.0,
    variation_percent=5.0,
    rest_every_seconds=75.0,
    rest_seconds=6.0,
    rest_percent=30.0,
)
SERVING = Workload(
    command="vllm serve Qwen2.5-72B-Instruct --tensor-parallel-size 2 --port 8000",
    memory_share=(0.90, 0.92),
    busy_percent=52.0,
    variation_percent=44.0,
    variation_seconds=5.0,
    heat=0.72,
    cpu_percent=131.0,
)
NOTEBOOK = Workload(
    command="python -m ipykernel_launcher -f /run/user/jupyter/kernel-7f3a.json",
    memory_share=(0.12, 0.45),
    busy_percent=0.0,
    variation_percent=0.0,
    cpu_percent=0.3,
)
RESERVING = Workload(
    command="python hold_gpus.py --memory 0.92 --sleep 60",
    memory_share=(0.91, 0.93),
    busy_percent=0.0,
    variation_percent=0.0,
    cpu_percent=0.1,
)
"""Memory allocated only so that nobody else takes the GPU."""
EXPLORING = Workload(
    command="python -m ipykernel_launcher -f /run/user/jupyter/kernel-2c91.json",
    memory_share=(0.08, 0.30),
    busy_percent=71.0,
    variation_percent=24.0,
    rest_every_seconds=38.0,
    rest_seconds=24.0,
    rest_percent=20.0,
    loading_seconds=3.0,
    heat=0.7,
    cpu_percent=38.0,
)
SWEEPING = Workload(
    command="python sweep.py --dataset imagenet --arch vit_b16 --lr 3e-4",
    memory_share=(0.42, 0.60),
    busy_percent=88.0,
    variation_percent=8.0,
    rest_every_seconds=52.0,
    rest_seconds=5.0,
    rest_percent=22.0,
)
FITTING = Workload(
    command="julia --project=. --threads=8 scripts/fit_posterior.jl",
    memory_share=(0.15, 0.36),
    busy_percent=57.0,
    variation_percent=27.0,
    rest_every_seconds=33.0,
    rest_seconds=7.0,
    rest_percent=20.0,
    heat=0.7,
    cpu_percent=412.0,
)
SINGLE_GPU_WORKLOADS: tuple[Workload, ...] = (
    FINE_TUNING,
    EXPLORING,
    SWEEPING,
    FITTING,
    Workload(
        command="python eval.py --checkpoint runs/0417/step_48000.pt --suite mmlu",
        memory_share=(0.28, 0.52),
        busy_percent=64.0,
        variation_percent=20.0,
        variation_seconds=3.0,
        loading_seconds=16.0,
        heat=0.75,
    ),
    Workload(
        command="gmx mdrun -deffnm npt -nb gpu -pme gpu -ntomp 8",
        memory_share=(0.03, 0.06),
        busy_percent=81.0,
        variation_percent=4.0,
        loading_seconds=4.0,
        heat=0.66,
        cpu_percent=790.0,
    ),
    Workload(
        command="python generate.py --model sdxl-turbo --prompts prompts.txt --steps 30",
        memory_share=(0.30, 0.40),
        busy_percent=98.0,
        variation_percent=2.0,
        rest_every_seconds=17.0,
        rest_seconds=2.0,
        rest_percent=35.0,
        heat=0.94,
    ),
)
"""Workloads for one GPU."""

MULTI_GPU_WORKLOADS: tuple[Workload, ...] = (PRETRAINING, FINE_TUNING, SWEEPING)
"""Workloads for several GPUs."""


class ProcessContext(Struct, frozen=True, kw_only=True, gc=False):
    """Container, pod and job of a process, as its cgroup shows them."""

    container: str | None = None
    pod: str | None = None
    slurm_job: str | None = None


def make_process_context(manager: JobManager, rng: Random, started_at: float) -> ProcessContext:
    """Return the context of a process that the manager starts at that time."""
    if manager == "slurm":
        return ProcessContext(slurm_job=str(int(started_at / 60) % 1_000_000))
    container = None if manager == "bare" else f"{rng.getrandbits(48):012x}"
    pod = random_uuid(rng) if manager == "pod" else None
    return ProcessContext(container=container, pod=pod)


def random_uuid(rng: Random) -> str:
    """A UUID, as drivers and clusters write it."""
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
