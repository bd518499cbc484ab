"""Every error this package raises on purpose.

* FleetError                shown to a user in one line
  x UsageError              the request makes no sense: bad flag, bad pattern, bad setting (exit 2)
    + NotFound              the hub has no such node, job or endpoint
  x Unmet                   the request makes sense and cannot be met now (exit 1)
  x StateError              saved state cannot be used: damaged, too new, open to others
  x CollectError            one collector could not read its subject
    + NotPresent            the subject is not on this machine: expected, not worth a warning
    + ReadFailed            the subject is there and cannot be read
      - DriverMismatch      the driver and its library have different versions
      - NotAnswering        the subject did not answer before its deadline
        . StillReading      the subject has not answered yet, within its deadline
  x DeliveryError           a report did not get through, or the hub did not answer
    + Unreachable           no response, or not in time
      - Throttled           the hub takes no more from this sender now, and says until when
      - OutOfOrder          the hub lacks reports from before this one: resend them first
      - NeedsFullReport     a compact report does not fit what the hub has: send the full one
    + Refused               access denied: key, token, host key
      - AlreadyJoined       the id of a node that joins has a credential
      - NoPerson            the hub does not know which person sends this
    + Undecodable           the data is not a report
      - EmptyReport         no data: a file that its writer has just created
      - TruncatedReport     the data ends early: its writer is not finished, or was stopped
    + UnsupportedVersion    a report of a version that this program does not know
"""

from typing import Any


class FleetError(Exception):
    """An error that is shown to a user in one line."""


class UsageError(FleetError):
    """The request makes no sense: bad flag, bad pattern, bad setting."""


class NotFound(UsageError):
    """The hub has no such node, job or endpoint."""


class Unmet(FleetError):
    """The request makes sense and cannot be met now."""


class StateError(FleetError):
    """Saved state cannot be used: damaged, too new, open to others."""


class CollectError(FleetError):
    """One collector could not read its subject."""


class NotPresent(CollectError):
    """The subject is not on this machine."""


class ReadFailed(CollectError):
    """The subject is there and cannot be read."""


class DriverMismatch(ReadFailed):
    """The driver and its library have different versions."""


class NotAnswering(ReadFailed):
    """The subject did not answer before its deadline."""

    def __init__(
        self, message: str, since: float | None = None, partial_result: dict[Any, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.since = since
        self.partial_result = partial_result or {}
        """Partial results of the binding from before the subject stopped answering."""


class StillReading(NotAnswering):
    """The subject has not answered yet, and its deadline has not passed: it may only be slow."""


class DeliveryError(FleetError):
    """A report was not delivered; `node` is the source's name of the node, where it has one."""

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message if node is None else f"{node}: {message}")
        self.node = node
        self.message = message


class Unreachable(DeliveryError):
    """No response, or not in time."""


class Throttled(Unreachable):
    """The hub takes no more reports from this sender now, and says when it may send again."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class OutOfOrder(Unreachable):
    """The hub lacks reports that were sent before this one: they have to be sent again first."""


class NeedsFullReport(Unreachable):
    """A compact report does not fit what the hub has: the full one has to be sent."""


class Refused(DeliveryError):
    """Access denied: a wrong key or token, a changed host key."""


class AlreadyJoined(Refused):
    """The id of a node that joins has a credential, which is never replaced."""


class NoPerson(Refused):
    """The hub does not know which person sends this: a token that many share names nobody."""


class Undecodable(DeliveryError):
    """The data is not a report."""


class EmptyReport(Undecodable):
    """No data: a file that its writer has just created, or never filled."""


class TruncatedReport(Undecodable):
    """The data ends early: its writer is not finished, or was stopped."""


class UnsupportedVersion(DeliveryError):
    """A report of a version that this program does not know."""
