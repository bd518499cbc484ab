"""What the routes work with."""

from msgspec import Struct, field

from fleet_smi.hub.credentials import Credentials
from fleet_smi.hub.history.answers import Answers
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.sources.push import PushSource
from fleet_smi.model.privacy import Commands
from fleet_smi.server.auth import Access
from fleet_smi.server.shared import Shared


class Services(Struct, frozen=True, kw_only=True):
    """One hub and those who may ask it."""

    hub: Hub
    push: PushSource
    credentials: Credentials
    access: Access
    commands_for_viewers: Commands = "name"
    commands_for_admins: Commands = "full"
    tls: bool = False
    fingerprint: str | None = None
    get_status_password: str | None = None
    past: Answers | None = None
    energy_price: float | None = None
    currency: str | None = None
    shared: Shared = field(default_factory=Shared)
