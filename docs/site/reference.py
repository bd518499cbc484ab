"""Reference pages that are generated from the code: the HTTP API and the table of settings."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from fleet_smi.config import SETTINGS, Setting
from fleet_smi.config.template import to_toml_literal
from fleet_smi.server.app import load_endpoints
from fleet_smi.server.openapi import build_document

_WHO = {"view": "viewers", "act": "signed-in people", "administrate": "admins", "report": "nodes"}
_METHODS = ("get", "post", "patch", "delete")


def settings_page() -> str:
    """Every setting in one table per section, with its default."""
    lines = [
        "# Settings at a glance\n",
        "Generated from the table that fleet-smi itself reads; [Settings](settings.md) explains.\n",
    ]
    for section, rows in groupby(SETTINGS, lambda each: each.section):
        lines += [f"## {section}\n", "| setting | what | default | variable |", "|---|---|---|---|"]
        lines += [_setting_row(each) for each in rows]
        lines.append("")
    return "\n".join(lines)


def _setting_row(setting: Setting) -> str:
    anchor = setting.name.replace(".", "").lower()
    return (
        f"| [`{setting.name}`](settings.md#{anchor}) | {_cell(setting.description)} "
        f"| {_default(setting)} | `{setting.environment_variable}` |"
    )


def _default(setting: Setting) -> str:
    if setting.default in (None, (), {}):
        return "–"
    return f"`{to_toml_literal(setting.value_type.format(setting.default))}`"


def api_page() -> str:
    """Every endpoint with its parameters, body and answers, and every type that they use."""
    endpoints = load_endpoints()
    document = build_document(endpoints)
    actions = {
        (each.method.lower(), each.path.replace(":path", "")): each.required_action
        for each in endpoints
    }
    lines = [
        "# API reference\n",
        "Generated from the OpenAPI document, which a hub has at `/api/v1/openapi.json`.",
        "[HTTP](http.md) explains how to use it.\n",
    ]
    for path, operations in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in operations:
                who = actions.get((method, path))
                lines += _operation(method, path, operations[method], who)
    lines.append("## Types\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines)


def _operation(
    method: str, path: str, operation: Mapping[str, Any], action: str | None
) -> Iterator[str]:
    yield f"## {method.upper()} {path}\n"
    who = f" For {_WHO[action]}." if action is not None else ""
    yield f"{_cell(operation['summary'])}.{who}\n"
    if operation["parameters"]:
        yield "| parameter | in | type | default |"
        yield "|---|---|---|---|"
        for each in operation["parameters"]:
            schema = each["schema"]
            default = schema.get("default")
            default = "–" if default in (None, "") else f"`{json.dumps(default)}`"
            yield f"| `{each['name']}` | {each['in']} | {_type(schema)} | {default} |"
        yield ""
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody'])}\n"
    success, *others = operation["responses"].items()
    yield f"Answer: {success[0]}, {_content(success[1]) or 'no content'}\n"
    yield "Errors: " + ", ".join(f"{status}" for status, _ in others) + "\n"


def _content(holder: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{_type(each['schema'])} (`{kind}`)" for kind, each in holder.get("content", {}).items()
    )


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if description := schema.get("description"):
        yield f"{_cell(str(description))}\n"
    properties = schema.get("properties", {})
    if properties:
        yield "| field | type |"
        yield "|---|---|"
        for field, kind in properties.items():
            mark = "" if field in schema.get("required", ()) else ", optional"
            yield f"| `{field}` | {_type(kind)}{mark} |"
        yield ""
    else:
        yield f"{_type(schema)}\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Describe a type in a few words, with links to the named ones."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        items = schema.get("items", {})
        return f"list of {_type(items)}" if items else "list"
    if kind == "object" and schema.get("additionalProperties"):
        return f"table of {_type(schema['additionalProperties'])}"
    return str(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").rstrip(".")
