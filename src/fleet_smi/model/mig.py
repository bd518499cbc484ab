"""MIG instances as fractions of their GPU."""

from fleet_smi.model.snapshot import Gpu, Instance

_SLICES_PER_GPU = 7  # MIG profiles count compute slices in sevenths


def instance_weights(gpu: Gpu) -> list[float]:
    """Return the fractions of a GPU that its instances are, scaled down to at most 1 in total."""
    weights = [_instance_weight(instance, gpu) for instance in gpu.instances]
    total = max(1.0, sum(weights))
    return [weight / total for weight in weights]


def _instance_weight(instance: Instance, gpu: Gpu) -> float:
    """Return it by compute slices ("1g.10gb" is 1/7), else by memory, else as an equal share."""
    slices = (instance.profile or "").partition("g.")[0]
    if slices.isdecimal() and 0 < int(slices) <= _SLICES_PER_GPU:  # "²" is a digit, but no number
        return int(slices) / _SLICES_PER_GPU
    if instance.memory_total_bytes and gpu.memory_total_bytes:
        return min(1.0, instance.memory_total_bytes / gpu.memory_total_bytes)
    return 1.0 / len(gpu.instances)
