"""The static page: its content, escaping of hostile names, and that it loads nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from fleet_smi.model.fleet import STATES, FleetView
from fleet_smi.model.verdict.last_known import mark_all_silent
from fleet_smi.wire import static_page
from fleet_smi.wire.static_page import render_page
from tests import golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import busy_gpu, fleet, gpu, node, process, utc, verdict

GOLDEN = Path(__file__).parent / "golden"
STYLE = Path(static_page.__file__).with_name("style.css").read_text("utf-8")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
)
TAGS = re.compile(
    "html|head|meta|title|link|style|body|svg|symbol|path|circle|use|rect|header|main|section"
    "|footer|div|h[123]|p|ul|li|dl|dt|dd|b|i|a|span|time|code"
)
ATTRIBUTES = re.compile(
    "class|id|href|lang|charset|name|content|http-equiv|rel|tabindex|role|aria-hidden|width|height"
    "|viewbox|preserveaspectratio|c[xy]|r|d|fill|stroke(-width|-dasharray)?"
)
VOID = ("meta", "link")


class Read(HTMLParser):
    """A page as a browser takes it: its tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.texts.append(data)


def render(view: FleetView, interval: float | None = None, error: str | None = None) -> str:
    return render_page(
        view,
        style=STYLE,
        to_local_time=utc,
        interval_seconds=interval,
        error=error,
        downloads=["load_data.csv"],
    )


def page_text(view: FleetView, interval: float | None = None, error: str | None = None) -> str:
    return " ".join(" ".join(Read(render(view, interval, error)).texts).split())


def test_the_page_of_a_small_fleet_matches_the_golden_file() -> None:
    view = fleet(samples.eight(), samples.sliced(), samples.silent(), samples.no_gpu())
    text = render_page(
        view,
        style="/* the style */",
        to_local_time=utc,
        interval_seconds=300,
        downloads=["load_data.csv"],
    )
    golden.assert_matches_golden(GOLDEN / "page.html", re.sub(r">(?=<)", ">\n", text))


@pytest.mark.parametrize("state", STATES)
def test_a_state_has_a_word_and_a_shape_beside_its_colour(state: str) -> None:
    text = render(fleet(node("n", gpu(0, verdict(state)))))  # type: ignore[arg-type]
    (row,) = re.findall(rf'<li class="gpu is-{state}.*?</li>', text)
    assert f'<use href="#{state}">' in row
    assert f'<span class="state">{state}</span>' in row
    assert f'<symbol id="{state}"' in text


def test_details_show_owners_and_the_memory_in_use() -> None:
    shared = busy_gpu(
        0,
        process("alice", 50.0, pid=1),
        process("alice", 4.0, pid=2),
        process("bob", 6.0, pid=3),
        memory_busy_percent=3.0,
    )
    text = page_text(fleet(node("n", shared)))
    assert "alice 54.0 GiB, 2 processes bob 6.0 GiB, 1 process" in text
    assert "60.0 of 79.6 GiB (75 %)" in text
    assert "3 %" not in text, "how busy the memory is says nothing of how full it is"


def test_an_idle_gpu_with_full_memory_is_shown_as_full() -> None:
    full = gpu(0, verdict("held"), 79.0, memory_busy_percent=0.0, processes=(process("bob", 78.0),))
    text = render(fleet(node("n", full)))
    assert '<rect width="99.2"' in text
    assert "79.0" in text


def test_zombies_and_hidden_processes_are_shown() -> None:
    dead = process("bob", 6.0, pid=3, condition="zombie")
    text = page_text(fleet(node("n", busy_gpu(0, dead, samples.hidden_process()))))
    assert "6.0 GiB, 1 process, 1 zombie" in text
    assert "bob +1 unseen" in text and "unknown user 30.0 GiB, 1 process" in text
    more = process("bob", 2.0, pid=4, condition="zombie")
    assert "8.0 GiB, 2 processes, 2 zombies" in page_text(fleet(node("n", busy_gpu(0, dead, more))))


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    text = page_text(fleet(node("n", gpu(0, verdict("free"), None, busy_percent=None))))
    assert "Load —" in text and "— of 79.6 GiB" in text
    text = page_text(fleet(node("n", gpu(0, verdict("free"), 0.0))))
    assert "Load 0 %" in text and "0.0 of 79.6 GiB (0 %)" in text


def test_the_page_shows_its_time_the_next_update_and_the_age_of_each_node() -> None:
    text = page_text(fleet(samples.eight(), samples.silent()), interval=300)
    assert "1 of 2 nodes reporting · as of 2026-03-04 14:06:11 UTC · next at 14:11:11" in text
    assert "14:06:09, 2 s old" in text
    assert "silent for 4 min, last report 14:02:11" in text


def test_free_gpus_come_first_without_those_of_silent_nodes() -> None:
    text = page_text(fleet(samples.eight(), samples.silent()))
    before, _, after = text.partition("2 of 8 free")
    assert "Free now" in before and "gpu01 GPU 3, 7" in before
    assert "gpu07 GPU" not in text and "was free" in after


def test_an_unreachable_host_is_shown_beside_the_others() -> None:
    dead = node("gpu09", taken_at=None, age_seconds=None, trouble="ssh: connection refused")
    text = page_text(fleet(samples.eight(), dead))
    assert "gpu09 no GPU never reported ssh: connection refused" in text
    assert "gpu01 2 of 8 free" in text


def test_a_page_without_new_data_says_so_and_offers_no_gpu() -> None:
    old = mark_all_silent(fleet(samples.eight()), 600)
    text = page_text(old, error="http://hub:7070 does not answer")
    assert "No new data: http://hub:7070 does not answer." in text
    assert "No GPU is known to be free." in text
    assert "silent for 10 min, last report 14:06:09" in text


def test_the_page_reloads_itself_and_loads_nothing_else() -> None:
    text = render(samples.lab())
    assert '<meta http-equiv="refresh" content="60">' in text
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"url\(|@import|https?:|<script|src=", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_text(name: str) -> None:
    odd = verdict("busy", name)
    hostile = busy_gpu(0, process(name, 1.0), judged=odd, name=name, uuid=name)
    bare = render(fleet(node("n", busy_gpu(0, process("a", 1.0)))))
    text = render(fleet(node(name, hostile, trouble=name)), error=name)
    assert Read(text).tags == Read(bare).tags
    assert all(shape in text for shape in ("</style>", "</html>"))


@given(FLEET)
def test_any_fleet_makes_a_whole_page_of_known_tags_and_links(view: FleetView) -> None:
    read = Read(render(view))
    assert all(TAGS.fullmatch(tag) for tag in read.tags)
    assert all(ATTRIBUTES.fullmatch(name) for name, _ in read.attributes)
    links = {value for name, value in read.attributes if name == "href"}
    assert all(re.fullmatch(r"#[a-z]+(-\d+)?|load_data\.csv|data:,", link) for link in links)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", "".join(read.texts))


@given(FLEET)
def test_every_gpu_and_every_node_of_any_fleet_is_there(view: FleetView) -> None:
    text = render(view)
    gpus = [gpu for node in view.nodes for gpu in node.gpus]
    assert text.count('<li class="gpu ') == len(gpus) + sum(len(gpu.instances) for gpu in gpus)
    assert text.count('<section class="node') == len(view.nodes)


def test_the_style_sheet_cannot_close_its_element() -> None:
    assert "<" not in STYLE


def test_free_mig_instances_are_counted_and_listed() -> None:
    view = fleet(samples.eight(), samples.sliced())
    text = page_text(replace(view, summary=replace(view.summary, free_instances=1)))
    assert "free +1 MIG" in text
    assert "mig01 GPU 0, MIG 1g.5gb+me" in text
