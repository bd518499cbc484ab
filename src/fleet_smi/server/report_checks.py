"""Checks of a decoded report: whether its sender may send it, and whether the hub can take it."""

from typing import NamedTuple

from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, NeedsFullReport, UnsupportedVersion
from fleet_smi.fleet.machines import is_clone_id
from fleet_smi.hub.credentials import Identity
from fleet_smi.hub.refusals import Refusal
from fleet_smi.model.merge import with_node_id
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_decoding import DecodedReport, FigureReport, merge_report
from fleet_smi.server.report_response import BEHIND, NEED_FULL, OUT_OF_ORDER
from fleet_smi.server.services import Services
from fleet_smi.wire.compact import CompactReport
from fleet_smi.wire.report import Report

# A live report is never refused for this: it is small, and viewers wait for it.
MAX_LIVE_SECONDS = 60.0


class ReportSender(NamedTuple):
    """The sender of a report, and its encoding."""

    identity: Identity
    is_json: bool
    address: str = ""
    charged_bytes: int = 0
    """The size that was announced, for which the budget is charged already."""
    credentials_version: int | None = None
    """The credentials that it was identified by; `None` if it has to be every time."""


NOBODY = ReportSender(Identity(role="node", name=""), is_json=False)
"""Before there is one."""


class ReportChecks:
    """Turns what was decoded into what is delivered, or into an error."""

    def __init__(self, services: Services) -> None:
        self._hub = services.hub
        self._push = services.push
        self._access = services.access
        self._credentials = services.credentials

    def check(
        self, decoded: DecodedReport, sender: ReportSender
    ) -> Report | FigureReport | HttpError:
        """Return the report as it may be delivered, or the error."""
        if isinstance(decoded, DeliveryError):
            return self._undecodable(decoded, sender.identity)
        if isinstance(decoded, CompactReport):
            report: Report | FigureReport | HttpError = self._merged(decoded, sender.identity)
        else:
            report = self._authorized(decoded, sender)
        if isinstance(report, HttpError):
            return report
        is_backlog = _age_seconds(report) > MAX_LIVE_SECONDS
        return BEHIND if is_backlog and not self._hub.accepts_backlog else report

    def _merged(self, compact: CompactReport, identity: Identity) -> FigureReport | HttpError:
        node_id = identity.node_id or ""
        report: FigureReport | HttpError
        try:
            report = merge_report(compact, identity, self._hub.fleet, self._credentials)
            node_id = self._hub.pushed_node_id(report.base)
        except NeedsFullReport:
            report = NEED_FULL
        # Whether or not it has the base: a hub that continues from older data needs all since.
        return report if compact.hub == self._hub.receipt_id_of(node_id) else OUT_OF_ORDER

    def _authorized(self, decoded: Report, sender: ReportSender) -> Report | HttpError:
        # Only now is it known which node the report claims to be from; the decoder has checked
        # that all its snapshots are of one node.
        identity, snapshot = sender.identity, decoded.snapshots[-1]
        is_own = identity.role == "node" and identity.node_id == snapshot.node_id
        report = decoded if is_own else self._as_own(decoded, sender)
        if isinstance(report, HttpError):
            return report
        if report.hub is None:
            return report
        node_id = self._hub.pushed_node_id(report.snapshots[-1])
        return report if report.hub == self._hub.receipt_id_of(node_id) else OUT_OF_ORDER

    def _as_own(self, report: Report, sender: ReportSender) -> Report | HttpError:
        """Return a report that has another id than its sender, or the error if it may not."""
        identity, snapshot = sender.identity, report.snapshots[-1]
        if identity.node_id is not None and is_clone_id(identity.node_id, snapshot.node_id):
            # It has the machine-id of another node, and a credential of its own.
            self._hub.fleet.identities.add_clone(identity.node_id, snapshot.node_id)
            moved = [with_node_id(each, identity.node_id) for each in report.snapshots]
            report = replace(report, snapshots=tuple(moved))
        refusal = self._access.authorize(identity, "report", report.snapshots[-1].node_id)
        if refusal is not None:
            self._hub.refuse(
                Refusal(
                    sender.address,
                    f"it reports for {snapshot.name} with the credential of {identity.name}",
                    "remove the credential from its agent.state, and let it join by itself",
                    name=snapshot.name,
                )
            )
        return refusal or report

    def _undecodable(self, error: DeliveryError, identity: Identity) -> HttpError:
        if isinstance(error, NeedsFullReport):
            return NEED_FULL
        # Shown as a failure of the node only where the credential says which one it is.
        if identity.node_id is not None:
            self._push.reject(identity.node_id, error)
        code = "wrong_version" if isinstance(error, UnsupportedVersion) else "undecodable"
        return HttpError(400, code, error.message)


def _age_seconds(report: Report | FigureReport) -> float:
    """The age of the oldest sample of a report."""
    if isinstance(report, FigureReport):
        return report.age_seconds
    return report.age_seconds(report.snapshots[0])
