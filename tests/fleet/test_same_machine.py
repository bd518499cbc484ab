"""One machine that an agent and an older tool report is one node; two of one name stay two."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.model.snapshot import Gpu, Host, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, process, snapshot

PUSH = Via("push", "id-of-gpu01")
NVGPU = Via("nvgpu", "gpu01:1080")
FILE = Via("files", "gpu01")
ADDRESS = "10.0.0.1"


def full_gpus(count: int = 2) -> tuple[Gpu, ...]:
    """GPUs whose memory is full, without a process that accounts for it."""
    return tuple([gpu(index, memory_used_bytes=70 * GIB) for index in range(count)])


def agent(at: float, *gpus: Gpu, node: str = "gpu01", **fields: Any) -> Snapshot:
    host = Host(addresses=fields.pop("addresses", (ADDRESS,)))
    fields = {
        "boot_id": f"boot-of-{node}",
        "run_id": f"run-of-{node}",
        "agent_version": "1",
    } | fields
    return snapshot(
        *(gpus or full_gpus()),
        node=node,
        taken_at=at,
        sequence=int(at - NOON),
        interval_seconds=2.0,
        host=host,
        **fields,
    )


def older(at: float, *gpus: Gpu, node: str = "gpu01", node_id: str = "nvgpu-gpu01") -> Snapshot:
    """A machine as nvgpu reports it: no memory, no UUIDs, and nobody on it."""
    listed = gpus or [gpu(index, memory_used_bytes=None) for index in range(2)]
    made = [
        Gpu(
            uuid=f"nvidia-gpu{each.index}@{node_id}",
            uuid_is_made=True,
            index=each.index,
            vendor="nvidia",
            name=each.name,
            memory_used_bytes=each.memory_used_bytes,
            processes=each.processes,
            reported_by="nvgpu",
        )
        for each in listed
    ]
    return snapshot(
        *made, node=node, node_id=node_id, taken_at=at, interval_seconds=5.0, boot_id=None
    )


def poll(
    fleet: FleetState,
    at: float,
    *gpus: Gpu,
    via: Via = NVGPU,
    address: str | None = None,
    **fields: Any,
) -> None:
    """Apply what the older tool reports."""
    fleet.apply(older(at, *gpus, **fields), at, via, origin="target", address=address)


def ids(fleet: FleetState, at: float) -> set[str]:
    return {node.node_id for node in fleet.view(at).nodes}


def offered(fleet: FleetState, at: float) -> int:
    return sum(each.verdict.state == "free" for node in fleet.view(at).nodes for each in node.gpus)


@pytest.mark.parametrize("older_first", [False, True], ids=["agent first", "older tool first"])
@pytest.mark.parametrize("address", [None, ADDRESS], ids=["no address", "address"])
def test_an_older_tool_beside_an_agent_is_a_route_of_its_node(
    older_first: bool, address: str | None
) -> None:
    fleet = FleetState()
    fleet.add_target(NVGPU)
    for tick in range(3):
        at = NOON + 2 * tick
        if not older_first or tick:
            fleet.apply(agent(at), at, PUSH)
        poll(fleet, at + 1, address=address)
    assert ids(fleet, NOON + 6) == {"id-of-gpu01"}
    assert offered(fleet, NOON + 6) == 0
    assert fleet.routes.node_id(NVGPU) == "id-of-gpu01"
    assert fleet.routes.take_joined() == (["nvgpu-gpu01"] if older_first else ["nvgpu:gpu01:1080"])
    # A failure of that route is shown at the node, until it works again.
    fleet.record_failure(NVGPU, "timed out", NOON + 7)
    assert fleet.view(NOON + 7).nodes[0].trouble == "timed out"
    poll(fleet, NOON + 8)
    assert fleet.view(NOON + 8).nodes[0].trouble is None


def test_what_the_administrator_named_stays_named_when_an_agent_is_installed() -> None:
    fleet = FleetState()
    poll(fleet, NOON)
    fleet.label("nvgpu-gpu01", "big one", {"rack": "7"})
    fleet.apply(agent(NOON + 1), NOON + 1, PUSH)
    poll(fleet, NOON + 2)
    (node,) = fleet.view(NOON + 2).nodes
    assert (node.node_id, node.name, node.labels) == ("id-of-gpu01", "big one", {"rack": "7"})


def test_it_stays_one_node_after_a_restart_of_the_hub() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    poll(fleet, NOON + 1)
    checkpoint = fleet.checkpoint("id-of-gpu01")
    assert isinstance(checkpoint, NodeCheckpoint)
    again = FleetState()
    again.restore(checkpoint)
    again.add_target(NVGPU)
    # The older tool is polled before the agent sends its first report.
    poll(again, NOON + 60)
    assert ids(again, NOON + 60) == {"id-of-gpu01"}
    again.apply(agent(NOON + 61), NOON + 61, PUSH)
    poll(again, NOON + 62)
    assert ids(again, NOON + 62) == {"id-of-gpu01"}


def test_the_older_tool_is_listed_again_when_the_agent_is_gone_for_good() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    poll(fleet, NOON + 1)
    poll(fleet, NOON + 60)
    assert ids(fleet, NOON + 60) == {"id-of-gpu01"}
    poll(fleet, NOON + HOUR)
    by_id = {node.node_id: node.silent for node in fleet.view(NOON + HOUR).nodes}
    assert by_id == {"id-of-gpu01": True, "nvgpu-gpu01": False}


@pytest.mark.parametrize(
    ("node", "address", "uuids", "expected"),
    [
        ("gpu01", None, ("GPU-0", "GPU-1"), 1),
        ("GPU01.lab.example", None, ("GPU-0", "GPU-1"), 1),
        ("other-name", ADDRESS, ("GPU-0", "GPU-1"), 1),
        ("other-name", ADDRESS, None, 1),
        ("gpu01", "192.0.2.1", ("GPU-0", "GPU-1"), 1),  # through NAT: the UUIDs tell
        # Not the same machine.
        ("other-name", None, ("GPU-0", "GPU-1"), 2),
        ("gpu01", None, ("GPU-8", "GPU-9"), 2),
        ("gpu01", "10.0.0.2", None, 2),
        ("gpu02", None, None, 2),
    ],
)
def test_names_addresses_and_uuids_tell_whether_it_is_one_machine(
    node: str, address: str | None, uuids: tuple[str, ...] | None, expected: int
) -> None:
    fleet = FleetState()
    cards = [gpu(index, uuid=f"GPU-{index}") for index in range(2)]
    fleet.apply(agent(NOON, *cards), NOON, PUSH)
    if uuids is None:
        listed = older(NOON + 1, node=node)
    else:
        cards = [gpu(index, uuid=uuid) for index, uuid in enumerate(uuids)]
        listed = snapshot(
            *cards, node=node, node_id="gpustat-gpu01", taken_at=NOON + 1, boot_id=None
        )
    fleet.apply(listed, NOON + 1, FILE, origin="target", address=address)
    assert len(ids(fleet, NOON + 1)) == expected


def test_machines_of_one_name_with_other_gpus_are_two_nodes() -> None:
    for cards in ([gpu(0)], [gpu(0, name="Tesla K80"), gpu(1, name="Tesla K80")]):
        fleet = FleetState()
        fleet.apply(agent(NOON), NOON, PUSH)
        poll(fleet, NOON + 1, *cards)
        assert len(ids(fleet, NOON + 1)) == 2


def test_an_older_tool_is_no_route_of_one_of_two_agents_of_its_name() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    twin = agent(
        NOON, node_id="id-of-twin", boot_id="other", run_id="other", addresses=("10.0.0.2",)
    )
    fleet.apply(twin, NOON, Via("push", "id-of-twin"))
    poll(fleet, NOON + 1)
    assert len(ids(fleet, NOON + 1)) == 3
    # With the address it was read at it is clear.
    poll(fleet, NOON + 2, address="10.0.0.2")
    assert ids(fleet, NOON + 2) == {"id-of-gpu01", "id-of-twin"}
    assert fleet.routes.node_id(NVGPU) == "id-of-twin"


def test_of_two_older_agents_of_one_name_one_is_a_route() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    poll(fleet, NOON + 1)
    poll(fleet, NOON + 1, via=Via("nvgpu", "gpu01.b"), node_id="nvgpu-gpu01@gpu01.b")
    assert ids(fleet, NOON + 1) == {"id-of-gpu01", "nvgpu-gpu01@gpu01.b"}


def test_which_older_agent_is_the_route_does_not_depend_on_the_clock_of_the_hub() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    poll(fleet, NOON + 1)
    fleet.shift_times(24 * HOUR)
    at = NOON + 24 * HOUR + 2
    fleet.apply(agent(at), at, PUSH)
    poll(fleet, at, via=Via("nvgpu", "gpu01.b"), node_id="nvgpu-gpu01@gpu01.b")
    assert ids(fleet, at) == {"id-of-gpu01", "nvgpu-gpu01@gpu01.b"}


USED = (gpu(0, memory_used_bytes=None, processes=(process(77),)), gpu(1, memory_used_bytes=None))
FILLED = (gpu(0, memory_used_bytes=60 * GIB, processes=None), gpu(1, memory_used_bytes=None))


@pytest.mark.parametrize("in_use", [USED, FILLED], ids=["a process", "memory"])
def test_no_agent_hides_a_use_that_the_older_tool_sees(in_use: tuple[Gpu, ...]) -> None:
    """Somebody with a credential names his node like the machine that is polled."""
    fleet = FleetState()
    idle = gpu(0), gpu(1)
    at = NOON
    for _ in range(20):
        at += 2
        fleet.apply(agent(at, *idle), at, PUSH)
        poll(fleet, at + 1, *in_use)
    by_id = {node.node_id: node for node in fleet.view(at + 1).nodes}
    assert by_id.keys() == {"id-of-gpu01", "nvgpu-gpu01"}
    assert by_id["nvgpu-gpu01"].gpus[0].verdict.state != "free"
    # Nor does it become one node in between, when the machine is idle for a while.
    for _ in range(20):
        at += 2
        fleet.apply(agent(at, *idle), at, PUSH)
        poll(fleet, at + 1)
    assert len(ids(fleet, at + 1)) == 2


def test_a_job_that_starts_between_two_samples_does_not_separate_them() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON, gpu(0), gpu(1)), NOON, PUSH)
    poll(fleet, NOON + 1)
    poll(fleet, NOON + 2, *USED)
    assert ids(fleet, NOON + 2) == {"id-of-gpu01"}
    at = NOON + 3
    for _ in range(5):
        at += 2
        fleet.apply(agent(at, gpu(0, processes=(process(77),)), gpu(1)), at, PUSH)
        poll(fleet, at + 1, *USED)
        assert ids(fleet, at + 1) == {"id-of-gpu01"}


def test_a_lost_gpu_that_the_older_tool_leaves_out_does_not_separate_them() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    poll(fleet, NOON + 1)
    poll(fleet, NOON + 2, gpu(1, memory_used_bytes=None))
    assert ids(fleet, NOON + 2) == {"id-of-gpu01"}


def test_two_routes_of_one_older_tool_are_routes_of_one_node() -> None:
    """A cluster-smi node that pushes to the hub, and to a router that the hub polls."""
    fleet = FleetState()
    for tick in range(0, 6, 2):
        fleet.apply(agent(NOON + tick), NOON + tick, PUSH)
        for target in ("cluster-smi-gpu01", "router:9081"):
            poll(
                fleet, NOON + tick + 1, via=Via("cluster-smi", target), node_id="cluster-smi-gpu01"
            )
    assert ids(fleet, NOON + 6) == {"id-of-gpu01"}


def test_a_node_with_a_credential_is_never_a_route_of_another() -> None:
    fleet = FleetState()
    fleet.apply(agent(NOON), NOON, PUSH)
    fleet.apply(older(NOON + 1), NOON + 1, Via("push", "nvgpu-gpu01"), origin="credential")
    assert ids(fleet, NOON + 1) == {"id-of-gpu01", "nvgpu-gpu01"}


def test_an_agent_that_claims_to_report_once_a_week_hides_no_older_tool() -> None:
    fleet = FleetState()
    fleet.apply(replace(agent(NOON), interval_seconds=7 * 86_400.0), NOON, PUSH)
    poll(fleet, NOON + HOUR)
    assert len(ids(fleet, NOON + HOUR)) == 2


@pytest.mark.parametrize(("sent_from", "expected"), [(ADDRESS, 1), ("10.0.0.66", 2)])
def test_an_agent_takes_no_machine_that_is_polled_at_an_address_it_does_not_report_from(
    sent_from: str, expected: int
) -> None:
    """Somebody with a credential claims the name and the address of a machine that is polled."""
    fleet = FleetState()
    for tick in range(0, 6, 2):
        at = NOON + tick
        fleet.apply(agent(at), at, PUSH, origin="credential", address=sent_from)
        poll(fleet, at + 1, address=ADDRESS)
    assert len(ids(fleet, NOON + 6)) == expected
