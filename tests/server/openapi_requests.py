"""Random requests to a real hub, valid and invalid: every response is as documented.

`test_openapi` runs this file in a pytest of its own: schemathesis makes thousands of requests when
the file is collected, which every worker of a test run would do again.
"""

import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks

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
# A report has so many fields that two thirds of all requests would be variations of one: random
# reports are the subject of `tests/wire`.
CONFIG = schemathesis.Config.from_dict(
    {
        "seed": 1,
        "operations": [
            {"include-path": "/api/v1/reports", "phases": {"coverage": {"enabled": False}}}
        ],
    }
)
# The response of the stream never ends: its own tests read it.
SCHEMA = schemathesis.openapi.from_dict(msgspec.json.decode(WRITTEN), config=CONFIG).exclude(
    path="/api/v1/stream"
)


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
