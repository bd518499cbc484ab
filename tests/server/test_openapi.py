"""The OpenAPI document is true: random requests over a real socket, valid and invalid."""

import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks

from fleet_smi import __version__
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.view_options import SORT_KEYS
from fleet_smi.server import refusal_limit
from fleet_smi.server.app import load_endpoints
from fleet_smi.server.openapi import build_document
from tests.builders import gpu, process, snapshot
from tests.server.threaded_hub import ThreadedHub

TOKENS: dict[str | None, str] = {}
"""Who may do it, so that the requests get as far as they can."""
ACTIONS = {
    (each.method, each.path.replace(":path", "")): each.required_action for each in load_endpoints()
}
load_all_checks()
NAMED = schemathesis.checks.CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "unsupported_method",
    ]
)
WRITTEN = msgspec.json.encode(build_document(load_endpoints()))
DOCUMENT: dict[str, Any] = msgspec.json.decode(WRITTEN)
# Its answer never ends: the tests of the stream read it.
SCHEMA = schemathesis.openapi.from_dict(
    msgspec.json.decode(WRITTEN), config=schemathesis.Config(seed=1)
).exclude(path="/api/v1/stream")


@schemathesis.serializer("application/msgpack")
def packed(_: Any, value: Any) -> Any:
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:  # it has no such numbers
        return b"\xc1"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with one node, which does not slow down whoever is refused again and again."""
    with (
        patch.object(refusal_limit, "_BURST", 1_000_000),
        ThreadedHub(tmp_path_factory.mktemp("hub")) as running,
    ):
        busy = gpu(0, processes=(process(),))
        node = running.join_and_report(
            snapshot(busy, gpu(1), taken_at=time.time(), interval_seconds=3600.0)
        )
        TOKENS.update(administrate=running.token("admin"), report=node)
        yield running


@SCHEMA.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_response_is_documented(case: Any, hub: ThreadedHub) -> None:
    token = TOKENS.get(ACTIONS[case.operation.method.upper(), case.operation.path])
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    case.call_and_validate(base_url=hub.url, headers=headers, checks=NAMED, timeout=60)


def test_every_endpoint_is_documented_and_no_other() -> None:
    written = {
        (method.upper(), path) for path, each in DOCUMENT["paths"].items() for method in each
    }
    assert written == set(ACTIONS)
    assert DOCUMENT["info"]["version"] == __version__


def test_every_operation_has_a_unique_id_and_a_summary() -> None:
    operations = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"] for each in operations)


def test_every_error_has_the_common_shape() -> None:
    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if status >= "4":
                    shape = response["content"]["application/json"]["schema"]
                    assert shape == {"$ref": "#/components/schemas/ErrorBody"}


def test_the_hub_answers_with_the_document_of_its_own_code(hub: ThreadedHub) -> None:
    assert hub.request("GET", "/api/v1/openapi.json").body == WRITTEN


def test_the_choices_are_those_of_the_model() -> None:
    def choices(path: str, name: str) -> set[str]:
        parameters = DOCUMENT["paths"][path]["get"]["parameters"]
        return set(next(each for each in parameters if each["name"] == name)["schema"]["enum"])

    assert choices("/api/v1/fleet", "sort") == set(SORT_KEYS)
    assert choices("/api/v1/free", "policy") == set(POLICIES)
