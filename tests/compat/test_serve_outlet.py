"""The serve outlet, polled as nvgpu masters and the gpu-cluster-monitor main node do."""

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import msgspec
import pytest

from fleet_smi.compat.node_info.agent_route import get_status_route
from fleet_smi.compat.node_info.codec import decode_status
from fleet_smi.compat.nvgpu.agent_route import ROUTES
from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.node.outlets.serve import ServeOutlet
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.builders import NOON, gpu, process, snapshot
from tests.machines import SimulatedMachine, UserProcesses, wait_until

TAKEN = snapshot(gpu(0, processes=(process(7, "alice", command="python train.py"),)), gpu(1))
PASSWORD = "correct horse battery"
JSON = {"Content-Type": "application/json"}


def serve(*, token: str | None = None, password: str | None = None) -> ServeOutlet:
    """An agent on a free port, with the routes that its settings would give it."""
    routes = [*ROUTES, *([get_status_route(password)] if password else [])]
    return ServeOutlet("127.0.0.1", 0, token=token, routes=routes)


@pytest.fixture
def serving() -> Iterator[ServeOutlet]:
    """Open to all on this machine, and with a password for the main node."""
    outlet = serve(password=PASSWORD)
    outlet.publish(TAKEN)
    yield outlet
    outlet.close()


@pytest.fixture
def guarded() -> Iterator[ServeOutlet]:
    """With a token, and without a password."""
    outlet = serve(token="t" * 40)
    outlet.publish(TAKEN)
    yield outlet
    outlet.close()


def ask(
    outlet: ServeOutlet, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answers = list[tuple[int, bytes]]()

    def is_answered() -> bool:
        connection = HTTPConnection("127.0.0.1", outlet.port, timeout=60)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            answers.append((response.status, response.read()))
        except ConnectionError:
            # Beyond four of one address; the slots of the last ones are free in a moment.
            return False
        finally:
            connection.close()
        return True

    wait_until(is_answered)
    return answers[0]


def get_status(
    outlet: ServeOutlet, value: Any, kind: str = "application/json"
) -> tuple[int, bytes]:
    return ask(outlet, "POST", "/get-status", msgspec.json.encode(value), Content_Type=kind)


def error_in(body: bytes) -> str:
    sent: str = msgspec.json.decode(body)["error"]["message"]
    return sent


def test_a_master_of_nvgpu_is_answered(serving: ServeOutlet) -> None:
    status, body = ask(serving, "GET", "/gpu_status")
    assert status == 200
    node = decode_gpu_status(body, NOON)
    assert (node.name, len(node.gpus)) == ("gpu01", 2)
    assert (node.gpus[0].processes or ())[0].command == "train.py"


def test_an_agent_answers_as_a_master_that_polls_itself(serving: ServeOutlet) -> None:
    status, body = ask(serving, "GET", "/cluster_status")
    assert (status, msgspec.json.decode(body)) == (
        200,
        [msgspec.json.decode(ask(serving, "GET", "/gpu_status")[1])],
    )
    status, page = ask(serving, "GET", "/")
    assert (status, page[:15]) == (200, b"<!doctype html>")
    assert b"<h2>self (gpu01)</h2>" in page
    assert b'<span class="used"> 0  [~]' in page
    assert b"alice" in page


def test_a_page_of_hostile_names_has_no_markup_of_theirs() -> None:
    outlet = serve()
    try:
        owner = process(7, "<b>eve</b>", command="<script>.py")
        outlet.publish(snapshot(gpu(name="<img>", processes=(owner,))))
        page = ask(outlet, "GET", "/")[1]
    finally:
        outlet.close()
    assert b"&lt;img&gt;" in page
    assert not any(tag in page for tag in (b"<b>", b"<script", b"<img"))


@pytest.mark.parametrize("path", ["/gpu_status", "/cluster_status", "/"])
def test_the_token_guards_the_nvgpu_routes_too(guarded: ServeOutlet, path: str) -> None:
    status, body = ask(guarded, "GET", path)
    assert status == 401
    assert b"alice" not in body
    shown = {"Authorization": f"Bearer {'t' * 40}"}
    assert ask(guarded, "GET", path, None, **shown)[0] == 200


def test_the_main_node_is_answered_for_the_password(serving: ServeOutlet) -> None:
    status, body = get_status(serving, {"passwd": PASSWORD})
    assert status == 200
    node = decode_status(body, NOON).snapshot
    assert [one.user for one in node.gpus[0].processes or ()] == ["alice"]


@pytest.mark.parametrize("wrong", ["8888", "", "correct horse", f"{PASSWORD} "])
def test_a_wrong_password_is_forbidden(serving: ServeOutlet, wrong: str) -> None:
    status, body = get_status(serving, {"passwd": wrong})
    assert (status, error_in(body)) == (403, "wrong password")


@pytest.mark.parametrize("value", [{}, [], {"passwd": None}, {"passwd": ["x"]}, 7])
def test_an_invalid_password_body_is_a_client_error(serving: ServeOutlet, value: Any) -> None:
    status, body = get_status(serving, value)
    assert status == 400
    assert "passwd" in error_in(body)


def test_guessing_passwords_is_throttled(serving: ServeOutlet) -> None:
    answers = [get_status(serving, {"passwd": str(number)})[0] for number in range(12)]
    assert answers == [403] * 10 + [429] * 2
    assert get_status(serving, {"passwd": PASSWORD})[0] == 429


def test_a_throttled_client_gets_a_retry_after(serving: ServeOutlet) -> None:
    for number in range(10):
        get_status(serving, {"passwd": str(number)})
    connection = HTTPConnection("127.0.0.1", serving.port, timeout=60)
    try:
        connection.request("POST", "/get-status", b'{"passwd": "x"}', JSON)
        response = connection.getresponse()
        assert (response.status, 1 <= int(response.headers["Retry-After"]) <= 6) == (429, True)
    finally:
        connection.close()


def test_wrong_passwords_are_logged_once_and_counted_until_the_right_one(
    serving: ServeOutlet, caplog: pytest.LogCaptureFixture
) -> None:
    for passwd in ("wrong", "8888", "guess", PASSWORD, PASSWORD):
        get_status(serving, {"passwd": passwd})
    first, second = caplog.messages
    assert 'error="a wrong password from 127.0.0.1"' in first
    assert "recovered=true failures=3" in second
    assert "guess" not in first


def test_the_right_password_of_one_address_ends_no_others_count(
    serving: ServeOutlet, caplog: pytest.LogCaptureFixture
) -> None:
    for address, passwd in (("127.0.0.2", "wrong"), ("127.0.0.1", PASSWORD)) * 3:
        connection = HTTPConnection(
            "127.0.0.1", serving.port, timeout=60, source_address=(address, 0)
        )
        try:
            connection.request("POST", "/get-status", msgspec.json.encode({"passwd": passwd}), JSON)
            connection.getresponse().read()
        finally:
            connection.close()
    assert len(caplog.messages) == 1


def test_an_unknown_path_is_answered_with_the_served_paths(
    serving: ServeOutlet, guarded: ServeOutlet
) -> None:
    assert "POST /get-status" in error_in(ask(serving, "GET", "/nothing")[1])
    shown = {"Authorization": f"Bearer {'t' * 40}"}
    assert "/get-status" not in error_in(ask(guarded, "GET", "/nothing", None, **shown)[1])


def test_the_right_password_is_never_throttled(serving: ServeOutlet) -> None:
    answers = {get_status(serving, {"passwd": PASSWORD})[0] for _ in range(30)}
    assert answers == {200}


def test_there_is_no_password_unless_one_is_set(guarded: ServeOutlet) -> None:
    assert get_status(guarded, {"passwd": "8888"})[0] == 401
    open_to_all = serve()
    try:
        open_to_all.publish(TAKEN)
        assert get_status(open_to_all, {"passwd": "8888"})[0] == 404
        assert get_status(open_to_all, {})[0] == 404
    finally:
        open_to_all.close()


def test_the_status_needs_no_token_but_the_password(guarded: ServeOutlet) -> None:
    both = serve(token="t" * 40, password=PASSWORD)
    try:
        both.publish(TAKEN)
        assert get_status(both, {"passwd": PASSWORD})[0] == 200
        assert ask(both, "GET", "/get-status")[0] == 405
    finally:
        both.close()


def test_a_form_on_another_site_cannot_post(serving: ServeOutlet) -> None:
    assert get_status(serving, {"passwd": PASSWORD}, kind="text/plain")[0] == 415
    body = msgspec.json.encode({"passwd": PASSWORD})
    assert ask(serving, "POST", "/get-status", body, **JSON, Host="evil.example")[0] == 421


@pytest.mark.parametrize("length", ["9999999999999", "5000", "-1", "x"])
def test_a_body_with_an_invalid_length_is_rejected_immediately(
    serving: ServeOutlet, length: str
) -> None:
    status, _ = ask(serving, "POST", "/get-status", b"{}", Content_Length=length, **JSON)
    assert status == 413


def test_other_methods_are_rejected(serving: ServeOutlet) -> None:
    assert ask(serving, "POST", "/api/v1/report", b"", **JSON)[0] == 404
    assert ask(serving, "POST", "/cluster_status", b"", **JSON)[0] == 404


def test_before_the_first_sample_the_service_is_unavailable() -> None:
    outlet = serve(password=PASSWORD)
    try:
        assert ask(outlet, "GET", "/gpu_status")[0] == 503
        assert get_status(outlet, {"passwd": PASSWORD})[0] == 503
    finally:
        outlet.close()


def test_cards_without_a_serial_number_and_lost_ones_do_not_break_the_response(
    serving: ServeOutlet, machine: SimulatedMachine, people: UserProcesses
) -> None:
    pid = people.start("sleep", "600")
    gone = SimProcess(pid=4_000_000_000, memory=GIB)
    busy = SimGpu(serial=None, memory_used=9 * GIB, processes=[SimProcess(pid=pid), gone])
    lost, blind = SimGpu(faults={"*": "lost"}), SimGpu(memory_used=None, memory_total=None)
    machine.set_scenario(Scenario(gpus=[lost, busy, blind]))
    serving.publish(machine.snapshot())

    sent = msgspec.json.decode(ask(serving, "GET", "/gpu_status")[1])["gpus"]
    assert [each["is_available"] for each in sent] == [False, False, False]
    assert sent[1]["pids"] == f"{pid},4000000000"
    assert sent[1]["users"].endswith(",?")

    sent = msgspec.json.decode(get_status(serving, {"passwd": PASSWORD})[1])["gpus"]
    assert [each["use_mem"] for each in sent] == ["lost", 9 * 1024, None]
    assert [each["pid"] for each in sent[1]["users"]] == [pid, 4_000_000_000]
