"""Leases of a fleet as rows: who holds which GPU, and who uses one without a lease. Pure."""

from collections.abc import Iterator

from msgspec import Struct

from fleet_smi.model.candidates import device_label
from fleet_smi.model.fleet import FleetView, JudgedDevice, NodeView, State
from fleet_smi.model.snapshot import Lease
from fleet_smi.model.verdict.lease_users import users_without_lease


class LeaseRow(Struct, frozen=True, kw_only=True):
    """One holder or user of a GPU or instance; `lease` is `None` where there is none."""

    node: str
    label: str
    uuid: str
    holder: str
    state: State
    lease: Lease | None = None


def list_leases(view: FleetView) -> list[LeaseRow]:
    """Return the leases, and the users of GPUs without one, in the order of the fleet."""
    return [row for node in view.nodes if not node.silent for row in _node_rows(node)]


def _node_rows(node: NodeView) -> Iterator[LeaseRow]:
    for gpu in node.gpus:
        if not gpu.instances:
            yield from _rows(node, device_label(node.name, gpu.index, None), gpu)
        for part, instance in enumerate(gpu.instances):
            yield from _rows(node, device_label(node.name, gpu.index, part), instance)


def _rows(node: NodeView, label: str, device: JudgedDevice) -> Iterator[LeaseRow]:
    lease, state = device.lease, device.verdict.state
    if lease is not None:
        yield LeaseRow(
            node=node.name,
            label=label,
            uuid=device.uuid,
            holder=lease.holder,
            state=state,
            lease=lease,
        )
    for user in users_without_lease(device):
        yield LeaseRow(node=node.name, label=label, uuid=device.uuid, holder=user, state=state)
