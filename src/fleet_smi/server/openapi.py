"""The OpenAPI document, made from the endpoints and the types themselves."""

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
    # A hub that listens on its own machine alone, or is open, asks nobody who they are.
    "view": [{}, {"token": []}, {"session": []}],
    "administrate": [{"token": []}, {"session": []}],
    "report": [{}, {"token": []}],
}
_WORDS = {
    200: "Here it is",
    204: "Done",
    304: "It is as it was",
    400: "The request makes no sense",
    401: "A credential is needed",
    403: "This credential does not allow it",
    404: "There is no such thing",
    413: "Too large",
    415: "Not in this format",
    421: "Not for this hub",
    429: "Too many failures from this address: wait",
    503: "Not now",
}


def build_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document, as plain values."""
    paths: dict[str, dict[str, Any]] = {}
    types = [kind for each in endpoints for kind in (each.body, each.response) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*types, ErrorBody], ref_template=_REFERENCE
    )
    known = dict(zip([*map(repr, types), repr(ErrorBody)], schemas, strict=True))
    for each in endpoints:
        paths.setdefault(_path(each), {})[each.method.lower()] = _operation(each, known)
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
    """The path as the document writes it: what is named there, and not of what kind."""
    return re.sub(r":\w+}", "}", endpoint.path)


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    path = _path(endpoint)
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub('[^a-z0-9]+', '_', path)}",
        "security": _SECURITY[endpoint.required_action],
        "parameters": [*_places(path), *_parameters(endpoint.query)],
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        schema = schemas[repr(endpoint.body)]
        content = {kind: {"schema": schema} for kind in endpoint.request_media_types}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _places(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _parameters(query: type[Struct] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    schema = msgspec.json.schema_components([query])[1][query.__name__]
    return [
        {"name": name, "in": "query", "required": False, "schema": kind}
        for name, kind in schema["properties"].items()
    ]


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    fine: dict[str, Any] = {"description": _WORDS[endpoint.status]}
    if endpoint.response is not None:
        schema = {"schema": schemas[repr(endpoint.response)]}
        fine["content"] = dict.fromkeys(endpoint.response_media_types, schema)
    others = {str(status): _other(status, schemas) for status in sorted(_statuses(endpoint))}
    return {str(endpoint.status): fine, **others}


def _other(status: int, schemas: dict[str, Any]) -> dict[str, Any]:
    if status < 400:
        return {"description": _WORDS[status]}
    error = {"application/json": {"schema": schemas[repr(ErrorBody)]}}
    return {"description": _WORDS[status], "content": error}


def _statuses(endpoint: Endpoint) -> set[int]:
    """What may come instead of success."""
    statuses = {400, 421, *endpoint.extra_statuses}
    if endpoint.required_action is not None:
        statuses |= {401, 403, 429}
        if endpoint.method != "GET":
            statuses.add(415)  # from a page, only what no form of another page can send
    if endpoint.body is not None:
        statuses |= {413, 415}
    return statuses
