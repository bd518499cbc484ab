"""`POST /api/v1/reports` for the OpenAPI document; `server/report_handler.py` handles it."""

from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_handler import ReportHandler
from fleet_smi.wire.report import Receipt, Report


async def _unreachable(_: RequestContext) -> Response:
    raise ApiError(HttpError(404, "not_found", "reports are handled before routing"))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path=ReportHandler.path,
        summary="The report of a node: one snapshot or several, the oldest first",
        required_action="report",
        handler=_unreachable,
        body=Report,
        request_media_types=("application/msgpack", "application/json"),
        response=Receipt,
        extra_statuses=(409, 429, 503),
    ),
)
