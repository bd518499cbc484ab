"""The page's types are those of the hub's OpenAPI document."""

import importlib.util
from types import ModuleType

import pytest

from tests.docs.pages import PROJECT


@pytest.fixture
def generator() -> ModuleType:
    """Return `web/generate_types.py`, which is not in a package."""
    spec = importlib.util.spec_from_file_location("types", PROJECT / "web/generate_types.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_of_the_page_are_generated_from_the_code(generator: ModuleType) -> None:
    committed = generator.TYPES.read_text(encoding="utf-8")
    assert committed == generator.generate(), "run: python web/build.py types"


def test_a_type_that_nothing_refers_to_is_left_out(generator: ModuleType) -> None:
    reference = {"$ref": "#/components/schemas/Used"}
    response = {"200": {"content": {"application/json": {"schema": reference}}}}
    used = {
        "properties": {
            "state": {"enum": ["a", "b"]},
            "load": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "rows": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"enum": ["="]}]}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    }
    source = generator.typescript(
        {
            "paths": {"/api/v1/x": {"get": {"responses": response}}},
            "components": {"schemas": {"Used": used, "Unused": {"type": "string"}}},
        }
    )
    assert "Unused" not in source
    for line in (
        'state: "a" | "b";',
        "load: number | null;",
        'rows: (number | "=")[];',
        "labels: Record<string, string>;",
    ):
        assert line in source
