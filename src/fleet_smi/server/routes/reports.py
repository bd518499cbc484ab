"""`POST /api/v1/reports` as the document has it; `server/reports.py` answers it."""

from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Asked, Endpoint
from fleet_smi.server.refusal import Refusal
from fleet_smi.server.reports import Reports
from fleet_smi.wire.report import Receipt, Report


async def _elsewhere(_: Asked) -> Response:
    raise ApiError(Refusal(404, "not_found", "reports are answered before any route is asked"))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path=Reports.path,
        summary="What a node reports of itself: one snapshot or several, the oldest first",
        may="report",
        handle=_elsewhere,
        body=Report,
        takes=("application/msgpack", "application/json"),
        answer=Receipt,
        also=(503,),
    ),
)
