"""The verdict rules in the order of evaluation: the first that applies decides.

The rules themselves are in `device_rules`, `mig_rules`, `process_rules` and `no_process_rules`.
A rule takes a `VerdictInput` and returns a `RuleResult`, or `None` where it does not apply.
"""

from fleet_smi.model.verdict import device_rules, mig_rules, no_process_rules, process_rules
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput


def apply_rules(inputs: VerdictInput) -> RuleResult:
    """Return the result of the first rule that applies."""
    gpu = inputs.gpu
    # This runs for every GPU of every report, and nearly all are sound and without MIG: two tests
    # instead of six rules.
    if not device_rules.is_sound(gpu):
        result = _device(inputs)
        if result is not None:
            return result
    if gpu.mig_mode or inputs.instance_verdicts:
        result = mig_rules.instances(inputs)
        if result is not None:
            return result
    return _use(inputs)


def _device(inputs: VerdictInput) -> RuleResult | None:
    """Apply the rules about the device itself."""
    return (
        device_rules.fault(inputs)
        or device_rules.uncorrected_memory_errors(inputs)
        or device_rules.closed_by_administrator(inputs)
        or device_rules.asleep(inputs)
    )


def _use(inputs: VerdictInput) -> RuleResult:
    """Apply the rules about its use; the last one of each group always has a result."""
    if inputs.group.has_members:
        result = None if inputs.group.computes else process_rules.display_only(inputs)
        # `at_work` before `stuck`: a process that waits for a disk is uninterruptible as well,
        # but while its GPU computes it is not dead.
        return (
            result
            or process_rules.at_work(inputs)
            or process_rules.stuck(inputs)
            or process_rules.idle(inputs)
            or process_rules.utilisation_not_measurable(inputs)
        )
    if inputs.subject.processes is None or inputs.gpu.processes_hidden:
        return (
            no_process_rules.unreadable_list_with_memory_in_use(inputs)
            or no_process_rules.unreadable_list_with_load(inputs)
            or no_process_rules.unreadable_list(inputs)
        )
    return (
        no_process_rules.unaccounted_memory(inputs)
        or no_process_rules.unattributed_load(inputs)
        or no_process_rules.not_in_use(inputs)
    )
