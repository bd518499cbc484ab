"""The check of devices against a request: which of them meet it, and why the others do not."""

from collections.abc import Container, Iterator, Sequence

from fleet_smi.model.candidates import (
    Device,
    GpuRequest,
    count_taken,
    device_model,
    matches_node,
    node_devices,
)
from fleet_smi.model.card_size import device_gigabytes, memory_for_request
from fleet_smi.model.cuda_visibility import visible_uuids
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.policies import POLICIES, closing_note, is_barred, is_offered
from fleet_smi.model.reservation import NodeBooking
from fleet_smi.model.snapshot import Gpu, Instance, Vendor
from fleet_smi.model.units import format_size
from fleet_smi.model.verdict.readings import total_memory
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts

NOT_VISIBLE = "free, but not in CUDA_VISIBLE_DEVICES"
BOOKED = "free, but booked by "
_OTHER_KIND = "free, but whole GPUs and MIG instances are not mixed"
# In order of preference, where no vendor is requested.
_VENDORS: tuple[Vendor, ...] = ("nvidia", "amd", "intel")
RejectedDevice = tuple[Device, str]
DeviceKey = tuple[int, int, int | None]


def device_key(device: Device) -> DeviceKey:
    """Identify a device among those of one list of nodes."""
    # By identity: comparing devices by value would be quadratic in a large fleet.
    return id(device.node), id(device.gpu), device.part


class FitCheck:
    """Checks the devices of a fleet against one request.

    A large fleet has many times more devices than meet a request: the others cost no more than
    a comparison, until somebody wants to know why.
    """

    def __init__(
        self, nodes: Sequence[NodeParts], request: GpuRequest, thresholds: Thresholds
    ) -> None:
        self._nodes = [parts for parts in nodes if matches_node(parts.node, request)]
        self._request = request
        self._thresholds = thresholds
        self._words = (request.model or "").casefold().split()
        self._is_full_name = self._has_full_name()
        self._vendor = request.vendor or self._usual_vendor()
        self._hidden = self._hidden_by_cuda()
        self._kept = _kept_for_others(self._nodes, request.person)

    def fitting(self) -> Iterator[Device]:
        """Yield the devices that meet the request, in the order of the nodes."""
        request, thresholds = self._request, self._thresholds
        offers, max_used = POLICIES[request.policy], request.max_used_percent
        for parts in self._nodes:
            offered = [
                each
                for each in node_devices(parts)
                if not is_barred(each[3]) and offers(each[2], each[3], max_used, thresholds)
            ]
            taken = count_taken(parts) if offered else 0
            for gpu, part, device, verdict in offered:
                one = Device(parts.node, gpu, part, device, verdict, taken)
                if self._is_model(gpu, device) and self._obstacle(one) is None:
                    yield one

    def refused(self, chosen: Container[DeviceKey]) -> Iterator[RejectedDevice]:
        """Yield the devices of the requested model that are not among the chosen, and why."""
        for parts in self._nodes:
            taken = count_taken(parts)
            for gpu, part, device, verdict in node_devices(parts):
                one = Device(parts.node, gpu, part, device, verdict, taken)
                if self._is_model(gpu, device) and device_key(one) not in chosen:
                    yield one, self._reason(one)

    def _reason(self, one: Device) -> str:
        request = self._request
        if one.gpu.vendor == self._vendor and not is_offered(
            one.device, one.verdict, request.policy, request.max_used_percent, self._thresholds
        ):
            return _state_and_reason(one)
        return self._obstacle(one) or _OTHER_KIND

    def _obstacle(self, one: Device) -> str | None:
        """Return why a device that its policy offers does not meet the request, if so."""
        state, needed = one.verdict.state, self._request.min_free_bytes
        if one.gpu.vendor != self._vendor:
            return f"of another vendor: request it with --vendor {one.gpu.vendor}"
        if one.uuid in self._hidden:
            return NOT_VISIBLE
        if self._kept and (kept := self._kept.get((one.node.node_id, one.gpu.uuid))):
            return kept
        if not needed:
            return None
        free = one.free_memory_bytes
        if free is None:
            return f"{state}, but how much memory is free is not known"
        total, gigabytes = total_memory(one.device), device_gigabytes(one.device)
        if memory_for_request(free, total, gigabytes, needed) >= needed:
            return None
        return f"{state}, but has only {format_size(free)} of free memory"

    def _is_model(self, gpu: Gpu, device: Gpu | Instance) -> bool:
        if not self._words:
            return True
        name = (device_model(gpu, device) or "").casefold()
        if self._is_full_name:
            return name.split() == self._words
        return all(word in name for word in self._words)

    def _has_full_name(self) -> bool:
        """Whether the request has the full name of a model: "NVIDIA L4" must not mean an L40S."""
        return bool(self._words) and any(
            (device_model(gpu, device) or "").casefold().split() == self._words
            for parts in self._nodes
            for gpu, _, device, _ in node_devices(parts)
        )

    def _usual_vendor(self) -> Vendor | None:
        present: set[Vendor] = set()
        for parts in self._nodes:
            for gpu, _, device, _ in node_devices(parts):
                if gpu.vendor not in present and self._is_model(gpu, device):
                    present.add(gpu.vendor)
                    # Nothing is preferred to the first: the rest need not be looked at.
                    if gpu.vendor == _VENDORS[0]:
                        return gpu.vendor
        return next((vendor for vendor in _VENDORS if vendor in present), None)

    def _hidden_by_cuda(self) -> frozenset[str]:
        """Return the UUIDs of NVIDIA devices that the caller's CUDA_VISIBLE_DEVICES leaves out."""
        if self._request.cuda_visible_devices is None:
            return frozenset()
        gpus = [gpu for parts in self._nodes for gpu, _ in parts.gpus if gpu.vendor == "nvidia"]
        uuids = [gpu.uuid for gpu in gpus]
        uuids += [instance.uuid for gpu in gpus for instance in gpu.instances]
        return frozenset(uuids) - visible_uuids(self._request.cuda_visible_devices, gpus)


def _kept_for_others(nodes: Sequence[NodeParts], person: str | None) -> dict[tuple[str, str], str]:
    """Return the free GPUs that are kept for the bookings of others, and why."""
    kept: dict[tuple[str, str], str] = {}
    for parts in nodes:
        for booking in parts.node.bookings:
            if booking.kept and booking.owner != person:
                kept.update(_kept(parts, booking))
    return kept


def _kept(parts: NodeParts, booking: NodeBooking) -> dict[tuple[str, str], str]:
    notes = {
        gpu.uuid: note.words
        for gpu, verdict in parts.gpus
        for note in verdict.notes
        if note.kind == "booked"
    }
    return {
        (parts.node.node_id, uuid): f"free, but {notes.get(uuid, f'booked by {booking.owner}')}"
        for uuid in booking.kept
    }


def _state_and_reason(one: Device) -> str:
    verdict: Verdict = one.verdict
    if (closed := closing_note(verdict)) is not None:
        return closed
    by = " by " if verdict.state == "held" and one.device.processes else ": "
    return f"{verdict.state}{by}{verdict.reason}"
