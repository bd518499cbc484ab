"""One resource a file; this is the list of all of them."""

ROUTES: tuple[str, ...] = (
    "fleet",
    "nodes",
    "free",
    "people",
    "stream",
    "reports",
    "join",
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
