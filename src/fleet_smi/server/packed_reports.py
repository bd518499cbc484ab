"""Packed reports that came at about the same time: applied together and acknowledged."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.hub.figure_batches import FigureBatches, PackedReport
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_batches import WaitingReport
from fleet_smi.server.report_budget import ReportBudget
from fleet_smi.server.report_checks import MAX_LIVE_SECONDS, ReportSender
from fleet_smi.server.report_response import BUG, ReceiptTemplate, ReportResponse
from fleet_smi.server.services import Services
from fleet_smi.wire.packed import is_for_hub

logger = logging.getLogger(__name__)


class PackedReports:
    """Applies reports to one hub: the steady ones together, the others by `handle_one`."""

    def __init__(
        self,
        services: Services,
        budget: ReportBudget,
        handle_one: Callable[[bytes, ReportSender], ReportResponse | HttpError],
    ) -> None:
        self._hub = services.hub
        self._push = services.push
        self._budget = budget
        self._handle_one = handle_one
        self._batches = FigureBatches(services.hub)

    def handle(self, waiting: Sequence[WaitingReport]) -> None:
        """Apply reports and respond to each."""
        rest = waiting
        try:
            if self._push.is_running:
                rest = self._apply_steady(waiting)
        except Exception:  # a bug in this must not be one in every report
            logger.exception("bug in a batch of reports")
        for report in rest:
            report.connection.respond(self._handle_one(report.body, report.sender))

    def _apply_steady(self, waiting: Sequence[WaitingReport]) -> list[WaitingReport]:
        """Apply and acknowledge what is the next report of its node and steady; return the rest."""
        hub, found, reports = self._hub, list[WaitingReport](), list[PackedReport]()
        rest: list[WaitingReport] = []
        for each in waiting:
            body, sender, _ = each
            node_id = sender.identity.node_id
            route = None if node_id is None else hub.figures.route(node_id)
            if route is None or not is_for_hub(body, hub.receipt_id_of(route.node.node_id)):
                rest.append(each)
            else:
                found.append(each)
                reports.append(PackedReport(body, route, remote_address(sender.address)))
        row_counts = self._batches.apply(reports, MAX_LIVE_SECONDS)
        now, templates = asyncio.get_running_loop().time(), dict[str, ReceiptTemplate]()
        faults, durable_sequence = hub.fleet.faults, hub.checkpointer.durable_sequence
        has_faults = bool(faults)
        for each, report, rows in zip(found, reports, row_counts, strict=True):
            if rows is None:
                rest.append(each)
                continue
            if rows:
                self._budget.settle(each.sender.identity, len(each.body), 0.0, rows)
            node = report.route.node
            node_id, base = node.node_id, node.latest.base
            if has_faults and faults.has("report", node_id):
                each.connection.respond(BUG)
                continue
            receipt_id = hub.receipt_id_of(node_id)
            template = templates.get(receipt_id)
            if template is None:
                template = templates[receipt_id] = ReceiptTemplate(hub.receipt(base, node_id))
            kept = durable_sequence(base, node_id)
            each.connection.acknowledge(template.response(kept), now)
        return rest
