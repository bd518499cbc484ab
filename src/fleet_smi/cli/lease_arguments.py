"""Flags of commands that take leases, and what they request."""

import argparse
import os
from typing import TYPE_CHECKING

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.node.leasing import LeaseOptions

_VENDORS = ("nvidia", "amd", "intel")
_MAX_COUNT = 1024


def add_request_arguments(parser: argparse.ArgumentParser, count_help: str) -> None:
    """Add the flags that say which GPUs are requested."""
    add = parser.add_argument
    add("-n", "--count", type=int, metavar="N", help=count_help)
    add("--min-free", metavar="SIZE", default="0", help="minimum free memory per GPU, like 20GiB")
    add("--model", metavar="WORDS", help="only models with these words in their name, like A100")
    add("--vendor", choices=_VENDORS, help="GPU vendor (default: NVIDIA if there are any)")


def timeout_seconds(args: argparse.Namespace) -> float | None:
    """Return how long to wait; `None` without a limit."""
    if args.nowait:
        return 0.0
    if args.timeout is None:
        return None
    from fleet_smi.model.units import parse_duration

    return parse_duration(args.timeout)


def lease_options(args: argparse.Namespace) -> "LeaseOptions":
    """Return what the flags and the environment request; raise `UsageError` for nonsense."""
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.model.units import parse_memory
    from fleet_smi.node.leasing import LeaseOptions

    named = getattr(args, "gpu_ids", None)
    ids = tuple([each.strip() for each in (named or "").split(",") if each.strip()])
    if named is not None and not ids:
        raise UsageError("--gpu-ids names no GPU: write it like --gpu-ids 0,3")
    count = args.count if args.count is not None else max(1, len(set(ids)))
    if not 1 <= count <= _MAX_COUNT:
        raise UsageError(f"-n {count}: must be 1 to {_MAX_COUNT}")
    request = GpuRequest(
        count=count,
        min_free_bytes=parse_memory(args.min_free),
        model=args.model,
        vendor=args.vendor,
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    return LeaseOptions(request, ids, getattr(args, "prefer_last", False))
