"""`GET /api/v1/openapi.json`: the OpenAPI document of this hub."""

from functools import cache

import msgspec
from starlette.responses import Response

from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.openapi import build_document


@cache
def _document() -> bytes:
    # Imported here: `load_endpoints` imports this module.
    from fleet_smi.server.app import load_endpoints

    return msgspec.json.encode(build_document(load_endpoints()))


async def openapi_document(_: RequestContext) -> Response:
    """The OpenAPI document, generated once from the endpoints."""
    return Response(_document(), media_type="application/json")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/openapi.json",
        summary="This document",
        required_action=None,
        handler=openapi_document,
        response=dict,
    ),
)
