"""Verdict rules about the device itself: faults, memory errors, closed, asleep."""

from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import FaultKind, Gpu
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.process_group import user_processes
from fleet_smi.model.verdict.readings import uncorrected_errors
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput

# These mean that it cannot be read, not that it cannot be used.
_UNKNOWN_FAULTS: tuple[FaultKind, ...] = ("mismatch", "unreadable")


def is_sound(gpu: Gpu) -> bool:
    """Whether no rule of this file can apply."""
    if gpu.fault is not None or gpu.ecc_uncorrected or gpu.asleep:
        return False
    return gpu.compute_mode in (None, "default")


def fault(inputs: VerdictInput) -> RuleResult | None:
    """`broken`, or `unknown` where only the reading failed."""
    its_fault = inputs.gpu.fault
    if its_fault is None:
        return None
    state: State = "unknown" if its_fault.kind in _UNKNOWN_FAULTS else "broken"
    reason = reasons.describe_fault(its_fault, _fault_since(inputs), inputs.now)
    return RuleResult(state, reason)


def uncorrected_memory_errors(inputs: VerdictInput) -> RuleResult | None:
    """`broken`: results computed on it may be wrong, unless the card contains the error."""
    if inputs.gpu.ecc_contained:
        return None
    errors = uncorrected_errors(inputs.gpu)
    return RuleResult("broken", reasons.describe_memory_errors(errors)) if errors else None


def closed_by_administrator(inputs: VerdictInput) -> RuleResult | None:
    """`leased`: the compute mode forbids new work."""
    mode = inputs.gpu.compute_mode
    if mode is None or mode.casefold() != "prohibited":
        return None
    people = user_processes(inputs.subject)
    still = f"; {reasons.describe_owners(people)} still on it" if people else ""
    return RuleResult("leased", f"closed by the administrator{still}")


def asleep(inputs: VerdictInput) -> RuleResult | None:
    """`free`: nothing runs on a suspended device, and reading more would wake it."""
    if inputs.gpu.asleep and not user_processes(inputs.gpu):
        return RuleResult("free", "asleep; not woken")
    return None


def _fault_since(inputs: VerdictInput) -> float | None:
    if inputs.gpu.fault is None or inputs.gpu.fault.since is None:
        return None
    # The fault is timed by the node's clock, `now` by the receiver's.
    since = inputs.gpu.fault.since + inputs.window.skew
    return since if 0 <= since <= inputs.now else None
