"""`POST /api/v1/reports` as the document has it; `server/report_handler.py` answers it."""

from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_handler import ReportHandler
from fleet_smi.wire.report import Receipt, Report


async def _elsewhere(_: RequestContext) -> Response:
    raise ApiError(HttpError(404, "not_found", "reports are answered before any route is asked"))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path=ReportHandler.path,
        summary="What a node reports of itself: one snapshot or several, the oldest first",
        required_action="report",
        handler=_elsewhere,
        body=Report,
        request_media_types=("application/msgpack", "application/json"),
        response=Receipt,
        extra_statuses=(503,),
    ),
)
