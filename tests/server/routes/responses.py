"""Responses of a hub as JSON, and those of the command for comparison."""

import json
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.program import run_fleet_smi
from tests.server.threaded_hub import ThreadedHub


def get_json(hub: ThreadedHub, path: str) -> Any:
    """Return the decoded body of a successful GET."""
    response = hub.request("GET", path)
    assert response.status == 200, response
    return msgspec.json.decode(response.body)


def command_json(hub: ThreadedHub, tmp_path: Path, *arguments: str) -> Any:
    """Return what the command prints about the same fleet, as JSON."""
    done = run_fleet_smi(*arguments, "--json", "--hub", hub.url, env={"HOME": str(tmp_path)})
    return json.loads(done.stdout)


def without_ages(value: Any) -> Any:
    """Drop what differs between two responses only because time has passed."""
    if isinstance(value, dict):
        return {
            key: without_ages(each)
            for key, each in value.items()
            if key not in ("age_seconds", "seconds", "taken_at", "words")
        }
    return [without_ages(each) for each in value] if isinstance(value, list) else value
