"""The routes in the formats of gpustat: text, terminal colours and HTML."""

import re
import time
from collections.abc import Iterator
from html import unescape

import pytest

from fleet_smi.compat.gpustat import codec
from fleet_smi.model.snapshot import Host, Snapshot
from fleet_smi.model.units import MIB
from tests.builders import gpu, process
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub, error_code

EVIL = '<script>alert(1)</script> & "x"'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Two nodes that report, one with a hostile user name; and one that fell silent."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        driver = Host(driver_version="550.90.07")
        busy = gpu(0, busy_percent=97.0, memory_used_bytes=16 << 30, processes=(process(),))
        ghost = gpu(1, uuid="GPU-g", memory_used_bytes=9004 * MIB)
        running.join_and_report(snapshot_now("cml10", busy, ghost, host=driver))
        evil = process(8, EVIL, name="\x1b[2Jpython", command="python --password hunter2")
        running.join_and_report(snapshot_now("cml11", gpu(0, uuid="GPU-e", processes=(evil,))))
        old = snapshot_now(
            "cml12", gpu(0, uuid="GPU-o"), taken_at=time.time() - 900, interval_seconds=1.0
        )
        node = running.join(old.node_id, old.name)
        running.report(old, token=node, sent_at=time.time())
        yield running


def got(hub: ThreadedHub, path: str) -> str:
    response = hub.request("GET", path)
    assert response.status == 200, response
    return response.body.decode()


def test_the_text_is_gpustats_with_a_line_for_each_silent_node(hub: ThreadedHub) -> None:
    lines = got(hub, "/gpustat.txt").splitlines()
    assert re.fullmatch(r"cml10 +\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}  550\.90\.07", lines[0])
    assert lines[1] == (
        "[0] NVIDIA H100 80GB HBM3 | 33°C,  97 %,   71 / 700 W | 16384 / 81559 MB"
        " | alice:python/4711(16384M)"
    )
    assert lines[2].endswith("|  9004 / 81559 MB | (9004M unaccounted)")
    assert lines[-1] == "(cml12) silent for 15 min"


def test_the_text_reads_back_through_the_same_dialect(hub: ThreadedHub) -> None:
    output = codec.decode_gpustat(got(hub, "/gpustat.txt").encode(), "hub", 0.0)
    assert [each.name for each in output if isinstance(each, Snapshot)] == ["cml10", "cml11"]


@pytest.mark.parametrize(
    "query, coloured",
    [("", False), ("?color", True), ("?color=1", True), ("?color=true", True), ("?color=0", False)],
)
def test_colour_is_used_only_when_requested(hub: ThreadedHub, query: str, coloured: bool) -> None:
    assert ("\x1b[36m[0]" in got(hub, f"/gpustat.txt{query}")) == coloured


def test_the_faces_have_the_types_that_gpustat_web_gives_them(hub: ThreadedHub) -> None:
    types = {
        "txt": "text/plain; charset=utf-8",
        "ansi": "text/ansi; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "css": "text/css; charset=utf-8",
    }
    for name, kind in types.items():
        assert hub.request("GET", f"/gpustat.{name}").headers["content-type"] == kind
    assert got(hub, "/gpustat.ansi") == got(hub, "/gpustat.txt?color")


@pytest.mark.parametrize("face", ["txt", "ansi", "html"])
def test_nodes_can_be_selected_and_unknown_ones_are_named(hub: ThreadedHub, face: str) -> None:
    text = got(hub, f"/gpustat.{face}?nodes=cml11,nobody")
    assert "cml11" in text
    assert "cml10" not in text
    assert "(nobody) is not known here" in text


def test_the_frame_of_the_page_can_be_left_away_and_text_has_none(hub: ThreadedHub) -> None:
    page, part = got(hub, "/gpustat.html?full=1"), got(hub, "/gpustat.html?full=0")
    assert page.startswith("<!doctype html>")
    assert page == got(hub, "/gpustat.html")
    assert part.startswith('<span class="strong">cml10')
    assert part in page
    for face in ("txt", "ansi"):
        assert got(hub, f"/gpustat.{face}?full=0") == got(hub, f"/gpustat.{face}?full=1")


def test_the_page_escapes_everything_and_runs_nothing(hub: ThreadedHub) -> None:
    page = got(hub, "/gpustat.html")
    assert "<script" not in page
    assert "style=" not in page
    assert "href" not in page.replace('href="gpustat.css"', "")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot;" in page
    assert page.count("<span") == page.count("</span>")
    shown = re.search(r"<pre>(.*)</pre>", page, re.DOTALL)
    assert shown is not None
    assert unescape(re.sub(r"<[^>]+>", "", shown[1])) == got(hub, "/gpustat.txt")


def test_no_control_code_of_a_process_reaches_a_terminal(hub: ThreadedHub) -> None:
    for face in ("txt", "ansi"):
        assert "\x1b[2J" not in got(hub, f"/gpustat.{face}")


def test_a_viewer_sees_no_command_line(hub: ThreadedHub) -> None:
    assert "hunter2" not in got(hub, "/gpustat.txt")


@pytest.mark.parametrize("query", ["color=maybe", "full=2", f"nodes={'x' * 5000}"])
def test_a_query_that_is_invalid_is_refused(hub: ThreadedHub, query: str) -> None:
    response = hub.request("GET", f"/gpustat.txt?{query}")
    assert response.status == 400
    assert error_code(response) == "bad_query"


def test_without_access_to_the_fleet_it_is_refused(hub: ThreadedHub) -> None:
    faces = ("txt", "ansi", "html", "css")
    for token in (hub.token("join"), "fsmi_wrong"):
        for face in faces:
            assert hub.request("GET", f"/gpustat.{face}", token=token).status in (401, 403)
    viewer = hub.token("viewer")
    assert {hub.request("GET", f"/gpustat.{face}", token=viewer).status for face in faces} == {200}
