"""The OpenAPI document describes every endpoint and every response."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet_smi import __version__
from fleet_smi.model.policies import POLICIES
from fleet_smi.model.view_options import SORT_KEYS
from fleet_smi.server.app import load_endpoints
from fleet_smi.server.openapi import build_document
from tests.server.threaded_hub import ThreadedHub

REQUESTS = Path(__file__).with_name("openapi_requests.py")
WRITTEN = msgspec.json.encode(build_document(load_endpoints()))
DOCUMENT: dict[str, Any] = msgspec.json.decode(WRITTEN)


@pytest.mark.timeout(300)
def test_every_response_is_documented() -> None:
    options = ["-q", "-p", "schemathesis.pytest.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(REQUESTS)],
        cwd=REQUESTS.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_every_endpoint_is_documented_and_no_other() -> None:
    written = {
        (method.upper(), path) for path, each in DOCUMENT["paths"].items() for method in each
    }
    endpoints = {(each.method, each.path.replace(":path", "")) for each in load_endpoints()}
    assert written == endpoints
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


def test_the_hub_answers_with_the_document_of_its_own_code(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        assert hub.request("GET", "/api/v1/openapi.json").body == WRITTEN


def test_the_choices_are_those_of_the_model() -> None:
    def choices(path: str, name: str) -> set[str]:
        parameters = DOCUMENT["paths"][path]["get"]["parameters"]
        return set(next(each for each in parameters if each["name"] == name)["schema"]["enum"])

    assert choices("/api/v1/fleet", "sort") == set(SORT_KEYS)
    assert choices("/api/v1/free", "policy") == set(POLICIES)
