"""The environment of a job: variables that make only its GPUs visible, for each vendor."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fleet_smi.cli.devices import cuda_devices
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.candidates import Candidate

DOCKER = "{docker}"
_CONTAINER_PROGRAMS = ("docker", "podman", "nerdctl")


def job_environment(
    candidates: "Sequence[Candidate]", environment: Mapping[str, str], *, uuid: bool = False
) -> dict[str, str]:
    """Return the environment of a job on these GPUs, which are all of one vendor.

    Indices by default, because programs parse them as numbers; CUDA counts them by PCI bus then.
    """
    devices = cuda_devices(candidates, uuid=uuid)
    job, vendor = dict(environment), candidates[0].vendor
    if vendor == "nvidia":
        job["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        job["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    elif vendor == "amd":
        job["ROCR_VISIBLE_DEVICES"] = ",".join(devices)
        # HIP counts what ROCr leaves visible: indices of before would be wrong.
        for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
            job.pop(name, None)
    else:
        if uuid:
            raise UsageError("--uuid: Intel's ONEAPI_DEVICE_SELECTOR takes indices only")
        job["ONEAPI_DEVICE_SELECTOR"] = f"level_zero:{','.join(devices)}"
        job.pop("ZE_AFFINITY_MASK", None)
    return job


def lost_environment(command: Sequence[str]) -> str | None:
    """Return a warning where a command does not pass the environment on to what it runs."""
    program = command[0].rpartition("/")[2]
    if program not in _CONTAINER_PROGRAMS or "exec" not in command[1:]:
        return None
    if any("VISIBLE_DEVICES" in word or "ONEAPI_DEVICE_SELECTOR" in word for word in command):
        return None
    return (
        f"{program} exec does not pass the environment on, and what runs there may use every GPU "
        f"of its container: add -e CUDA_VISIBLE_DEVICES -e CUDA_DEVICE_ORDER after exec"
    )


def docker_devices(candidates: "Sequence[Candidate]") -> str:
    """Return the value of docker's `--gpus` that gives a container these GPUs."""
    if candidates[0].vendor != "nvidia":
        raise UsageError("docker's --gpus is for NVIDIA GPUs alone")
    return f'"device={",".join(cuda_devices(candidates, uuid=True))}"'
