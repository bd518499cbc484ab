"""Every error this package raises on purpose.

* FleetError                what a user is told in one line
  x UsageError              the request makes no sense: bad flag, bad pattern, bad setting (exit 2)
  x Unmet                   the request makes sense and cannot be met now (exit 1)
  x StateError              what is kept on disk cannot be used: damaged, too new, open to others
  x CollectError            one collector could not read its subject
    + NotPresent            the subject is not on this machine: expected, not worth a warning
    + ReadFailed            the subject is there and answered badly
      - Mismatch            the driver and its library are of two versions
      - NotAnswering        the subject did not answer before its deadline
  x DeliveryError           a report did not get through, or the hub did not answer
    + Unreachable           nobody answers there, or not in time
    + Refused               it answers and will not have us: key, token, host key
    + Undecodable           what came is no report
      - Empty               nothing came: a file that its writer has only begun, or never filled
      - CutOff              it breaks off: its writer is still at it, or was stopped
    + WrongVersion          what came is a report of a version that is not known here
"""

from typing import Any


class FleetError(Exception):
    """What a user is told in one line."""


class UsageError(FleetError):
    """The request makes no sense: bad flag, bad pattern, bad setting."""


class Unmet(FleetError):
    """The request makes sense and cannot be met now."""


class StateError(FleetError):
    """What is kept on disk cannot be used: damaged, too new, open to others."""


class CollectError(FleetError):
    """One collector could not read its subject."""


class NotPresent(CollectError):
    """The subject is not on this machine."""


class ReadFailed(CollectError):
    """The subject is there and answered badly."""


class DriverMismatch(ReadFailed):
    """The driver and its library are of two versions."""


class NotAnswering(ReadFailed):
    """The subject did not answer before its deadline."""

    def __init__(
        self, message: str, since: float | None = None, partial_result: dict[Any, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.since = since
        self.partial_result = partial_result or {}
        """What the subject had told before it fell silent, as its binding tells it."""


class DeliveryError(FleetError):
    """A report did not get through; `node` is what the source calls the node, if it knows."""

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message if node is None else f"{node}: {message}")
        self.node = node
        self.message = message


class Unreachable(DeliveryError):
    """Nobody answers there, or not in time."""


class Refused(DeliveryError):
    """It answers and will not have us: a wrong key or token, a changed host key."""


class Undecodable(DeliveryError):
    """What came is no report."""


class EmptyReport(Undecodable):
    """Nothing came: a file that its writer has only begun, or never filled."""


class TruncatedReport(Undecodable):
    """It breaks off: its writer is still at it, or was stopped."""


class UnsupportedVersion(DeliveryError):
    """What came is a report of a version that is not known here."""
