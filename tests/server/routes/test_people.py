"""`GET /api/v1/people`: the same users as `fleet-smi who`."""

from pathlib import Path

from tests.server.routes.responses import command_json, get_json, without_ages
from tests.server.threaded_hub import ThreadedHub


def test_people_answers_as_the_command_does(hub: ThreadedHub, tmp_path: Path) -> None:
    found = get_json(hub, "/api/v1/people")["people"]
    assert [(each["user"], each["gpus"]) for each in found] == [("bob", 2), ("alice", 1)]
    assert without_ages(found) == without_ages(command_json(hub, tmp_path, "who")["people"])
    assert [each["user"] for each in get_json(hub, "/api/v1/people?user=alice")["people"]] == [
        "alice"
    ]
    assert get_json(hub, "/api/v1/people?user=null")["people"] == []
