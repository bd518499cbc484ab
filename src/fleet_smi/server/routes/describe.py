"""`GET /api/v1/openapi.json`: what can be asked, for programs that ask."""

from functools import cache

import msgspec
from starlette.responses import Response

from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.openapi import document


@cache
def _document() -> bytes:
    from fleet_smi.server.app import endpoints

    return msgspec.json.encode(document(endpoints()))


async def describe(_: Asked) -> Response:
    """The document, made from the types themselves."""
    return Response(_document(), media_type="application/json")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/openapi.json",
        summary="This document",
        may=None,
        handle=describe,
        answer=dict,
    ),
)
