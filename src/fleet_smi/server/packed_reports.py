"""Packed reports that came at about the same time: applied together and acknowledged."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.hub.figure_batches import BatchedReports, FigureBatches
from fleet_smi.hub.figure_delivery import FigureRoute
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_batches import WaitingReport
from fleet_smi.server.report_budget import ReportBudget
from fleet_smi.server.report_checks import MAX_LIVE_SECONDS, ReportSender
from fleet_smi.server.report_response import BUG, ReceiptTemplate, ReportResponse
from fleet_smi.server.services import Services
from fleet_smi.wire.packed import hub_field
from fleet_smi.wire.packed_layout import HUB_AT

logger = logging.getLogger(__name__)


class _Acknowledgement(NamedTuple):
    """The response to the last report of a node, and what it was made from."""

    receipt_id: str
    run_id: str | None
    durable: object
    response: bytes


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
        self._credentials = services.credentials
        self._budget = budget
        self._handle_one = handle_one
        self._batches = FigureBatches(services.hub)
        self._acknowledgements: dict[str, _Acknowledgement] = {}

    def handle(self, waiting: Sequence[WaitingReport]) -> None:
        """Apply reports and respond to each."""
        rest = self._charge(waiting)
        try:
            if self._push.is_running:
                rest = self._apply_steady(rest)
        except Exception:  # a bug in this must not be one in every report
            logger.exception("bug in a batch of reports")
        for report in rest:
            report.respond(self._handle_one(report.body, report.sender))

    def _charge(self, waiting: Sequence[WaitingReport]) -> Sequence[WaitingReport]:
        """Charge the budgets of the senders; refuse and leave out what exceeds one."""
        unpaid = [each for each in waiting if not each.charged]
        charges = [(each.sender.identity.token_id, len(each.body)) for each in unpaid]
        self._credentials.record_uses(charges)
        refused = self._budget.admit_all(charges)
        if not refused:
            return waiting
        errors = {id(unpaid[number]): error for number, error in refused.items()}
        for each in unpaid:
            if (error := errors.get(id(each))) is not None:
                each.respond(error)
        return [each for each in waiting if id(each) not in errors]

    def _apply_steady(self, waiting: Sequence[WaitingReport]) -> list[WaitingReport]:
        """Apply and acknowledge what is the next report of its node and steady; return the rest."""
        hub, found, reports = self._hub, list[WaitingReport](), BatchedReports.empty()
        bodies, routes, addresses = reports
        rest: list[WaitingReport] = []
        nodes, find_route, receipt_id_of = set[str](), hub.figures.route, hub.receipt_id_of
        receipt_id, field = "", b""
        for each in waiting:
            body, node_id = each.body, each.node_id
            route = find_route(node_id)
            if (own_id := receipt_id_of(node_id)) != receipt_id:
                receipt_id, field = own_id, hub_field(own_id)
            # Of two reports of one node the second builds on the first.
            if route is None or node_id in nodes or not body.startswith(field, HUB_AT):
                rest.append(each)
            else:
                nodes.add(node_id)
                found.append(each)
                bodies.append(body)
                routes.append(route)
                addresses.append(remote_address(each.sender.address))
        row_counts = self._batches.apply(reports, MAX_LIVE_SECONDS)
        self._acknowledge(found, reports, row_counts, rest)
        return rest

    def _acknowledge(
        self,
        found: Sequence[WaitingReport],
        reports: BatchedReports,
        row_counts: Sequence[int | None],
        rest: list[WaitingReport],
    ) -> None:
        hub, known, now = self._hub, self._acknowledgements, asyncio.get_running_loop().time()
        if len(known) > 2 * hub.fleet.node_count + len(found):
            known.clear()  # most are of nodes that were removed
        faults, durable_of = hub.fleet.faults, hub.checkpointer.durable.get
        has_faults, templates = bool(faults), dict[str, ReceiptTemplate]()
        receipt_id_of = hub.receipt_id_of
        for each, route, rows in zip(found, reports.routes, row_counts, strict=True):
            if rows is None:
                rest.append(each)
                continue
            if rows:
                self._budget.settle(each.sender.identity, len(each.body), 0.0, rows)
            node_id = route.node.node_id
            if has_faults and faults.has("report", node_id):
                each.respond(BUG)
                continue
            last, receipt_id, durable = (
                known.get(node_id),
                receipt_id_of(node_id),
                durable_of(node_id),
            )
            run_id = route.node.latest.base.run_id
            if (
                last is None
                or last.durable is not durable
                or last.run_id is not run_id
                or last.receipt_id != receipt_id
            ):
                last = known[node_id] = self._encode(route, receipt_id, durable, templates)
            each.acknowledge(last.response, now)

    def _encode(
        self,
        route: FigureRoute,
        receipt_id: str,
        durable: object,
        templates: dict[str, ReceiptTemplate],
    ) -> _Acknowledgement:
        hub, node_id, base = self._hub, route.node.node_id, route.node.latest.base
        template = templates.get(receipt_id)
        if template is None:
            template = templates[receipt_id] = ReceiptTemplate(hub.receipt(base, node_id))
        kept = hub.checkpointer.durable_sequence(base, node_id)
        return _Acknowledgement(receipt_id, base.run_id, durable, template.response(kept))
