"""The OpenAPI document, made from the endpoints and the types themselves."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from fleet_smi import __version__
from fleet_smi.server.endpoint import Endpoint
from fleet_smi.server.refusal import ErrorBody

_REFERENCE = "#/components/schemas/{name}"
_SECURITY: dict[str | None, list[dict[str, list[str]]]] = {
    None: [],
    "view": [{}, {"token": []}, {"session": []}],
    "administrate": [{"token": []}, {"session": []}],
    "report": [{"token": []}],
}
_WHOEVER_ASKS = (400, 421)
_WHO_MAY = (401, 403, 429)
_WORDS = {
    200: "Here it is",
    204: "Done",
    400: "The request makes no sense",
    401: "A credential is needed",
    403: "This credential does not allow it",
    404: "There is no such thing",
    409: "It is taken",
    413: "Too large",
    415: "Not in this format",
    405: "Not in that way",
    421: "Not for this hub",
    429: "Too many failures from this address: wait",
    503: "Not now",
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document, as plain values."""
    paths: dict[str, dict[str, Any]] = {}
    types = [kind for each in endpoints for kind in (each.body, each.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*types, ErrorBody], ref_template=_REFERENCE
    )
    known = dict(zip([*map(repr, types), repr(ErrorBody)], schemas, strict=True))
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fleet-smi", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "fleet_smi_session"},
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub('[^a-z]+', '_', endpoint.path)}",
        "security": _SECURITY[endpoint.may],
        "parameters": [*_places(endpoint.path), *_parameters(endpoint.query)],
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        schema = schemas[repr(endpoint.body)]
        content = {kind: {"schema": schema} for kind in endpoint.takes}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _places(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)", path)
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
    if endpoint.answer is not None:
        fine["content"] = {endpoint.answers_with: {"schema": schemas[repr(endpoint.answer)]}}
    error = {"application/json": {"schema": schemas[repr(ErrorBody)]}}
    always = _WHOEVER_ASKS if endpoint.may is None else (*_WHOEVER_ASKS, *_WHO_MAY)
    failed = {
        str(status): {"description": _WORDS[status], "content": error}
        for status in sorted({*always, *endpoint.errors})
    }
    return {str(endpoint.status): fine, **failed}
