"""Generates the page's types from the hub's OpenAPI document: `python web/build.py types`.

The result, `web/src/feed/types.ts`, is committed: the page builds without the Python package,
and a test compares the file with the code.
"""

import re
from pathlib import Path
from typing import Any

TYPES = Path(__file__).parent / "src/feed/types.ts"
_API = "/api/v1/"
_REFERENCE = "#/components/schemas/"
_PRIMITIVES = {"string": "string", "boolean": "boolean", "integer": "number", "number": "number"}
_HEADER = """\
// Generated from the hub's OpenAPI document by web/generate_types.py. Do not edit.
// After a change to the API run: python web/build.py types

"""


def generate() -> str:
    """Return the TypeScript source for everything that the hub's API responds with."""
    from fleet_smi.server.app import load_endpoints
    from fleet_smi.server.openapi import build_document

    return typescript(build_document(load_endpoints()))


def typescript(document: dict[str, Any]) -> str:
    """Return one declaration for each schema that a response of the API refers to."""
    schemas = document["components"]["schemas"]
    names = sorted(_reachable(_responses(document), schemas))
    return _HEADER + "\n".join(_declaration(name, schemas[name]) for name in names)


def _responses(document: dict[str, Any]) -> list[Any]:
    return [
        operation["responses"]
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if path.startswith(_API)
    ]


def _reachable(schema: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of all schemas that this one refers to, directly or not."""
    found: set[str] = set()
    pending = [schema]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending += current
        elif isinstance(current, dict):
            pending += current.values()
            name = _reference(current)
            if name is not None and name not in found:
                found.add(name)
                pending.append(schemas[name])
    return found


def _declaration(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    # "required" only lists fields without a default, but a response always has every field.
    fields = [f"  {_key(key)}: {_type(each)};\n" for key, each in schema["properties"].items()]
    return f"export interface {name} {{\n{''.join(fields)}}}\n"


def _type(schema: dict[str, Any]) -> str:
    name = _reference(schema)
    if name is not None:
        return name
    if "anyOf" in schema:
        return " | ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return "null" if kind == "null" else _PRIMITIVES.get(str(kind), "unknown")


def _array(schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(each) for each in schema['prefixItems'])}]"
    items = _type(schema.get("items", {}))
    return f"({items})[]" if " | " in items else f"{items}[]"


def _reference(schema: dict[str, Any]) -> str | None:
    target = schema.get("$ref")
    return target.removeprefix(_REFERENCE) if isinstance(target, str) else None


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"'


def main() -> None:
    """Write the generated file."""
    TYPES.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
