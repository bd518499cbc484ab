"""One resource a file; this is the list of all of them."""

ROUTES: tuple[str, ...] = (
    "fleet",
    "filter",
    "recent",
    "nodes",
    "free",
    "people",
    "stream",
    "reports",
    "join",
    "join_command",
    "tokens",
    "session",
    "describe",
    "metrics",
    "health",
    "nvgpu",
    "get_status",
    "gpustat",
    "page",
    "front",
)
