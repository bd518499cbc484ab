"""`GET /healthz` and `GET /readyz`: liveness and readiness."""

from tests.server.routes.responses import get_json
from tests.server.threaded_hub import ThreadedHub, error_code


def test_health_needs_no_credential(hub: ThreadedHub) -> None:
    for path in ("/healthz", "/readyz"):
        assert get_json(hub, path) == {"status": "ok"}
    hub.server.hub.ready = False
    try:
        response = hub.request("GET", "/readyz")
        assert (response.status, error_code(response)) == (503, "not_ready")
        assert get_json(hub, "/healthz") == {"status": "ok"}
    finally:
        hub.server.hub.ready = True
