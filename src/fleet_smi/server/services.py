"""Dependency container: the services of one hub that route handlers work with."""

from collections.abc import Callable

from msgspec import Struct, field

from fleet_smi.hub.closings import ClosingStore
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.history.queries.service import HistoryService
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_summaries import NodeSummaries
from fleet_smi.hub.problems import ProblemReport
from fleet_smi.hub.queue.keeper import QueueKeeper
from fleet_smi.hub.reservations import ReservationBook
from fleet_smi.hub.sources.push import PushSource
from fleet_smi.hub.wheelhouse import Wheelhouse
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.server.auth import AccessControl
from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.request_activity import RequestActivity
from fleet_smi.server.single_flight import SingleFlightCache
from fleet_smi.wire.prometheus import OwnMetrics


class Services(Struct, frozen=True, kw_only=True):
    """One hub, its access rules and the settings that responses depend on."""

    hub: Hub
    push: PushSource
    credentials: CredentialCache
    access: AccessControl
    cache: SingleFlightCache
    summaries: NodeSummaries
    backpressure: Backpressure = field(default_factory=Backpressure)
    activity: RequestActivity = field(default_factory=RequestActivity)
    commands_for_viewers: CommandVisibility = "name"
    commands_for_admins: CommandVisibility = "full"
    tls: bool = False
    fingerprint: str | None = None
    base_path: str = ""
    public_url: str | None = None
    get_status_password: str | None = None
    node_budget_seconds: float = 10.0
    history: HistoryService | None = None
    problems: ProblemReport
    queue: QueueKeeper
    closings: ClosingStore
    reservations: ReservationBook
    own_metrics: Callable[[], OwnMetrics]
    wheelhouse: Wheelhouse
    energy_price: float | None = None
    currency: str | None = None
