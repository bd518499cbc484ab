"""The registry of tools: name, arguments, result, and the function that answers."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from fleet_smi.errors import UsageError
from fleet_smi.mcp import efficiency, find_free, queue, who_has, why_slow
from fleet_smi.mcp.fleet_access import FleetAccess
from fleet_smi.mcp.outside_text import WARNING
from fleet_smi.wire.error_text import describe_error

MAX_RESULT_BYTES = 64 << 10
"""Of an answer: an assistant reads all of it. The lists in it are cut long before."""


class FleetTool(Struct, frozen=True, kw_only=True):
    """One tool; `needs_hub` where only a hub can answer, `acts` where it changes something."""

    name: str
    title: str
    description: str
    arguments: type[Struct]
    result: type[Struct]
    answer: Callable[[FleetAccess, Any], tuple[Any, str]]
    needs_hub: bool = False
    acts: bool = False


TOOLS: tuple[FleetTool, ...] = (
    FleetTool(
        name="find_free_gpus",
        title="Find free GPUs",
        description="Find GPUs that nobody uses, best first, and why there are not enough.",
        arguments=find_free.FreeArguments,
        result=find_free.FreeGpus,
        answer=find_free.find_free_gpus,
    ),
    FleetTool(
        name="who_has_gpus",
        title="Who has which GPUs",
        description="List who holds GPUs and how many of them idle; for one user every GPU.",
        arguments=who_has.WhoArguments,
        result=who_has.Holders,
        answer=who_has.who_has_gpus,
    ),
    FleetTool(
        name="why_is_it_slow",
        title="Why is it slow",
        description="Look for what slows a node, a GPU, a person's GPUs or a job down: throttling, "
        "heat, sharing, low load, slow links and clocks, faults.",
        arguments=why_slow.SlowArguments,
        result=why_slow.Slowdown,
        answer=why_slow.why_is_it_slow,
    ),
    FleetTool(
        name="job_efficiency",
        title="How efficient was my job",
        description="GPU-hours, load, idle time and advice for the latest jobs of a person.",
        arguments=efficiency.JobArguments,
        result=efficiency.JobList,
        answer=efficiency.job_efficiency,
        needs_hub=True,
    ),
    FleetTool(
        name="usage_history",
        title="Use of a node or person over time",
        description="GPU-hours, load, idle time and energy of a node or a person, per day.",
        arguments=efficiency.TrendArguments,
        result=efficiency.UsageTrend,
        answer=efficiency.usage_history,
        needs_hub=True,
    ),
    FleetTool(
        name="queue_status",
        title="Who waits for GPUs",
        description="The hub's queue: who waits for how many GPUs, in which order, and why.",
        arguments=queue.NoArguments,
        result=queue.QueueStatus,
        answer=queue.queue_status,
        needs_hub=True,
    ),
    FleetTool(
        name="join_queue",
        title="Wait for GPUs in the queue",
        description="Join the hub's queue in the name of the person who started this server.",
        arguments=queue.JoinArguments,
        result=queue.QueuedRequest,
        answer=queue.join_queue,
        needs_hub=True,
        acts=True,
    ),
    FleetTool(
        name="cancel_my_request",
        title="Leave the queue",
        description="Remove a request of the person who started this server from the queue.",
        arguments=queue.CancelArguments,
        result=queue.CancelledRequest,
        answer=queue.cancel_my_request,
        needs_hub=True,
        acts=True,
    ),
)


def offered_tools(*, has_hub: bool, may_act: bool) -> dict[str, FleetTool]:
    """Return the tools that can answer, by name."""
    return {
        tool.name: tool
        for tool in TOOLS
        if (has_hub or not tool.needs_hub) and (may_act or not tool.acts)
    }


def object_schema(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct, with the object itself at the top."""
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = schema["$ref"].rpartition("/")[2]
    top = {**parts[name], "$schema": "https://json-schema.org/draft/2020-12/schema"}
    others = {part: value for part, value in parts.items() if part != name}
    return {**top, "$defs": others} if others else top


def call_tool(access: FleetAccess, tool: FleetTool, arguments: Any) -> tuple[dict[str, Any], str]:
    """Answer one call; raise a `FleetError` whose message is for the assistant."""
    try:
        asked = msgspec.convert(arguments or {}, tool.arguments)
    except msgspec.ValidationError as error:
        raise UsageError(f"{tool.name}: {describe_error(error)}") from None
    # One after the other: a reader, an ssh poll and a connection are for one caller.
    with access.lock:
        found, text = tool.answer(access, asked)
    encoded = msgspec.json.encode(found)
    if len(encoded) + len(text.encode()) > MAX_RESULT_BYTES:
        raise UsageError(f"{tool.name}: the answer is too long: ask for less")
    structured: dict[str, Any] = msgspec.json.decode(encoded)
    return structured, f"{text}\n\n{WARNING}"
