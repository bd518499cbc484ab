"""The client of a hub's bookings: list, make, change, cancel, and the address of the calendar."""

from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from fleet_smi.client.hub import HubClient
from fleet_smi.client.responses import decode_error, decode_response
from fleet_smi.errors import UsageError
from fleet_smi.model.reservation import BookingCheck, ReservationInfo, ReservationList

_PATH = "/api/v1/reservations"


class _ConflictDocument(Struct):
    check: BookingCheck | None = None


class _FeedDocument(Struct):
    url: str


class BookingOverlap(UsageError):
    """A booking does not fit beside the others; `check` says when, and what would fit."""

    def __init__(self, check: BookingCheck) -> None:
        super().__init__("more GPUs would be booked than the node has")
        self.check = check


class ReservationClient:
    """The bookings of one hub."""

    def __init__(self, hub: HubClient) -> None:
        self._hub = hub

    def list(self, **query: str | None) -> ReservationList:
        """The bookings from now on; filtered by `node` or `owner`, with `since` of the past too."""
        given = {name: value for name, value in query.items() if value is not None}
        response = self._hub.send("GET", f"{_PATH}?{urlencode(given)}" if given else _PATH)
        return decode_response(response.body, ReservationList)

    def add(self, **booking: Any) -> ReservationInfo:
        """Make a booking; raise `BookingOverlap` where it does not fit, unless with `force`."""
        return self._send("POST", _PATH, booking)

    def edit(self, reservation_id: str, **change: Any) -> ReservationInfo:
        """Change a booking; raise `BookingOverlap` where it does not fit, unless with `force`."""
        return self._send("PATCH", f"{_PATH}/{quote(reservation_id, safe='')}", change)

    def cancel(self, reservation_id: str) -> None:
        """Cancel a booking, or end it if it has begun."""
        self._hub.send("DELETE", f"{_PATH}/{quote(reservation_id, safe='')}", {})

    def create_feed(self) -> str:
        """Make the secret address of one's calendar; the one before is no longer valid."""
        response = self._hub.send("POST", f"{_PATH}/feed", {})
        return decode_response(response.body, _FeedDocument).url

    def remove_feed(self) -> None:
        """Revoke the address of one's calendar."""
        self._hub.send("DELETE", f"{_PATH}/feed", {})

    def _send(self, method: str, path: str, body: dict[str, Any]) -> ReservationInfo:
        given = {name: value for name, value in body.items() if value is not None}
        response = self._hub.send(method, path, given, accepted=409)
        if response.status == 409:
            check = decode_response(response.body, _ConflictDocument).check
            if check is not None:
                raise BookingOverlap(check)
            error = decode_error(response.body)
            raise UsageError("the hub refuses it" if error is None else error.message)
        return decode_response(response.body, ReservationInfo)
