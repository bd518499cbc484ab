"""Verdict rules for a GPU in MIG mode: it is judged by the sum of its instances."""

from fleet_smi.model.fleet import State
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.process_group import user_processes, without_services
from fleet_smi.model.verdict.readings import is_display
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput

# The GPU has the first of these states that any of its instances has.
_PRECEDENCE: tuple[State, ...] = ("busy", "held", "ghost", "broken", "unknown", "leased", "free")


def instances(inputs: VerdictInput) -> RuleResult | None:
    """Sum up the instances of a whole GPU; does not apply to an instance or without MIG."""
    if not inputs.instance_verdicts:
        return _no_instance(inputs)
    gpu, states = inputs.gpu, [verdict.state for verdict in inputs.instance_verdicts]
    # The driver lists the processes of instances under the whole GPU, too.
    inside = {process.pid for instance in gpu.instances for process in instance.processes or ()}
    outside = any(
        process.pid not in inside and not is_display(process)
        for process in without_services(gpu.processes)
    )
    state = "busy" if outside else next(state for state in _PRECEDENCE if state in states)
    reason = reasons.describe_instances(states.count("free"), len(states), user_processes(gpu))
    return RuleResult(state, reason)


def _no_instance(inputs: VerdictInput) -> RuleResult | None:
    """`leased`: with MIG on and no instance nothing can run, unless a process computes."""
    if not inputs.gpu.mig_mode or inputs.group.computes or inputs.subject is not inputs.gpu:
        return None
    unread = inputs.gpu.unread.get("instances")
    if unread is not None:
        return RuleResult("unknown", f"MIG instances not readable ({unread}): cannot tell")
    return RuleResult("leased", reasons.NO_MIG_INSTANCE)
