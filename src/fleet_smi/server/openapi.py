"""The OpenAPI document, generated from the endpoints and their types."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from fleet_smi import __version__
from fleet_smi.server.auth import SESSION_COOKIE
from fleet_smi.server.endpoint import Endpoint
from fleet_smi.server.http_error import ErrorBody

_REFERENCE = "#/components/schemas/{name}"
_SECURITY: dict[str | None, list[dict[str, list[str]]]] = {
    None: [],
    # A hub on loopback, or an open one, needs no credential.
    "view": [{}, {"token": []}, {"session": []}],
    "act": [{"token": []}, {"session": []}],
    "administrate": [{"token": []}, {"session": []}],
    "report": [{}, {"token": []}],
}
_DESCRIPTIONS = {
    200: "OK",
    204: "Done, no content",
    304: "Not modified",
    400: "Invalid request",
    401: "A credential is required",
    403: "This credential does not allow it",
    404: "Not found",
    409: "It conflicts with what the hub has",
    413: "The body is too large",
    415: "Unsupported media type",
    421: "This hub does not answer to that host name",
    429: "Too many failures from this address: retry later",
    503: "Temporarily unavailable",
}


def build_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Build the whole document from plain values."""
    paths: dict[str, dict[str, Any]] = {}
    types = [
        body_type
        for endpoint in endpoints
        for body_type in (endpoint.body, endpoint.response)
        if body_type is not None
    ]
    schemas, components = msgspec.json.schema_components(
        [*types, ErrorBody], ref_template=_REFERENCE
    )
    by_type = dict(zip([*map(repr, types), repr(ErrorBody)], schemas, strict=True))
    for endpoint in endpoints:
        operations = paths.setdefault(_path(endpoint), {})
        operations[endpoint.method.lower()] = _operation(endpoint, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fleet-smi", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
            },
        },
    }


def _path(endpoint: Endpoint) -> str:
    """The path without the converters of Starlette: `{node_id:path}` is `{node_id}`."""
    return re.sub(r":\w+}", "}", endpoint.path)


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    path = _path(endpoint)
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub('[^a-z0-9]+', '_', path)}",
        "security": _SECURITY[endpoint.required_action],
        "parameters": [*_path_parameters(path), *_query_parameters(endpoint.query)],
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        schema = schemas[repr(endpoint.body)]
        content = {kind: {"schema": schema} for kind in endpoint.request_media_types}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(query: type[Struct] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    schema = msgspec.json.schema_components([query])[1][query.__name__]
    return [
        {"name": name, "in": "query", "required": False, "schema": kind}
        for name, kind in schema["properties"].items()
    ]


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": _DESCRIPTIONS[endpoint.status]}
    if endpoint.response is not None:
        schema = {"schema": schemas[repr(endpoint.response)]}
        success["content"] = dict.fromkeys(endpoint.response_media_types, schema)
    others = {
        str(status): _other_response(status, schemas)
        for status in sorted(_other_statuses(endpoint))
    }
    return {str(endpoint.status): success, **others}


def _other_response(status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    if status < 400:
        return {"description": _DESCRIPTIONS[status]}
    error = {"application/json": {"schema": schemas[repr(ErrorBody)]}}
    return {"description": _DESCRIPTIONS[status], "content": error}


def _other_statuses(endpoint: Endpoint) -> set[int]:
    """The statuses that an endpoint may answer with instead of success."""
    statuses = {400, 421, *endpoint.extra_statuses}
    if endpoint.required_action is not None:
        statuses |= {401, 403, 429}
        if endpoint.method != "GET":
            statuses.add(415)  # the CSRF check of requests with ambient credentials
    if endpoint.body is not None:
        statuses |= {413, 415}
    return statuses
