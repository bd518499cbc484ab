"""The registry of routes: modules with `ENDPOINTS`, one resource per file, in matching order.

Modules are named, not imported; those of older systems are below `fleet_smi.compat`.
"""

ROUTES: tuple[str, ...] = (
    "fleet_smi.server.routes.fleet",
    "fleet_smi.server.routes.overview",
    "fleet_smi.server.routes.filter",
    "fleet_smi.server.routes.nodes",
    "fleet_smi.server.routes.closings",
    "fleet_smi.server.routes.free",
    "fleet_smi.server.routes.queue",
    "fleet_smi.server.routes.people",
    "fleet_smi.server.routes.leases",
    # Before the bookings themselves, whose path has an id where this has "feed".
    "fleet_smi.server.routes.reservation_feed",
    "fleet_smi.server.routes.reservations",
    "fleet_smi.server.routes.strips",
    "fleet_smi.server.routes.ledger",
    "fleet_smi.server.routes.series",
    "fleet_smi.server.routes.usage",
    "fleet_smi.server.routes.report",
    "fleet_smi.server.routes.ribbon",
    "fleet_smi.server.routes.jobs",
    "fleet_smi.server.routes.history_state",
    "fleet_smi.server.routes.stream",
    "fleet_smi.server.routes.reports",
    "fleet_smi.server.routes.join",
    "fleet_smi.server.routes.identity",
    "fleet_smi.server.routes.join_command",
    "fleet_smi.server.routes.tokens",
    "fleet_smi.server.routes.personal_tokens",
    "fleet_smi.server.routes.users",
    "fleet_smi.server.routes.session",
    "fleet_smi.server.routes.openapi",
    "fleet_smi.server.routes.metrics",
    "fleet_smi.server.routes.health",
    "fleet_smi.compat.nvgpu.routes",
    "fleet_smi.compat.node_info.routes",
    "fleet_smi.compat.gpustat.routes",
    "fleet_smi.server.routes.page",
    "fleet_smi.server.routes.index",
)
