"""Activity of a server: reports of the fast path are none, every other request is."""

import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

from fleet_smi.server.request_activity import RequestActivity
from fleet_smi.wire.report import encode_report_json
from tests.builders import gpu, snapshot
from tests.machines import wait_until
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub


def test_a_request_is_activity_until_a_check_after_its_end() -> None:
    activity = RequestActivity()
    assert activity.was_idle(0)
    activity.begun += 1
    assert not activity.was_idle(0)
    assert not activity.was_idle(0)  # under way
    assert activity.was_idle(1)  # if it is an open stream
    activity.ended += 1
    assert not activity.was_idle(0)
    assert activity.was_idle(0)


def test_only_pushed_reports_are_no_activity(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "state") as hub:
        token, port = hub.join("id-of-gpu01", "gpu01"), int(hub.url.rpartition(":")[2])
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        activity = hub.server._app.activity
        wait_until(lambda: activity.closed_connections == 1)  # that of the join
        assert not hub.server.has_only_reports()

        def report(connection: HTTPConnection, sequence: int) -> int:
            at = time.time()
            body = encode_report_json([snapshot(gpu(), taken_at=at, sequence=sequence)], at)
            connection.request("POST", REPORTS_PATH, body, headers)
            with connection.getresponse() as response:
                response.read()
                return response.status

        with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            assert [report(connection, sequence) for sequence in range(1, 6)] == [200] * 5
            assert hub.server.has_only_reports()
            assert hub.request("GET", "/healthz").status == 200
            wait_until(lambda: activity.closed_connections == 2)
            assert not hub.server.has_only_reports()
            assert report(connection, 6) == 200
            assert hub.server.has_only_reports()
        # An agent that disconnects leaves as much behind as a request.
        wait_until(lambda: activity.closed_connections == 3)
        assert not hub.server.has_only_reports()
