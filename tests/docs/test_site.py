"""The documentation as a site: it builds without a warning, and a browser needs nothing else."""

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from docs.site.hooks import rewrite_links
from fleet_smi.config import SETTINGS
from fleet_smi.server.app import load_endpoints
from tests.docs.pages import PROJECT

pytest.importorskip("material", reason="`make docs` installs what the site needs")
from tests.page.conftest import browser, built_page  # noqa: F401  # fixtures

WIDTHS = (390, 1440)
SEEN = ("index.html", "comparison.html", "api.html", "settings-table.html", "start/no-root.html")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_pages_are_complete_and_load_nothing_from_elsewhere(site: Path) -> None:
    assert_reference_is_complete(site)
    assert_files_beside_the_docs_are_there(site)
    loads = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?https?:|<link[^>]*https?:")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [path.name for path in pages if loads.search(path.read_text(encoding="utf-8"))] == []


def assert_reference_is_complete(site: Path) -> None:
    api = (site / "api.html").read_text(encoding="utf-8")
    for each in load_endpoints():
        assert f"{each.method} {each.path.replace(':path', '')}<" in api
    table = (site / "settings-table.html").read_text(encoding="utf-8")
    for setting in SETTINGS:
        assert f">{setting.name}</code>" in table
        assert setting.environment_variable in table


def assert_files_beside_the_docs_are_there(site: Path) -> None:
    assert (site / "monitoring/grafana/overview.json").exists()
    assert (site / "architecture.html").exists()
    assert not list(site.rglob("*.py"))


def test_links_out_of_the_docs_lead_to_pages_or_become_text() -> None:
    text = "[a](../ARCHITECTURE.md#x) [b](sim.md) [c](../sim/README.md) ![d](images/p.png)"
    expected = "[a](architecture.md#x) [b](sim.md) c ![d](images/p.png)"
    assert rewrite_links(text, "docs/page.md", "page.md") == expected
    deeper = text.replace("../", "../../")
    expected = expected.replace("architecture", "../architecture")
    assert rewrite_links(deeper, "docs/start/page.md", "start/page.md") == expected


def test_a_browser_shows_it_in_both_themes_and_widths_and_searches_it(
    browser: Browser, site: Path, url: str  # noqa: F811
) -> None:  # fmt: skip
    for scheme, width in product(("light", "dark"), WIDTHS):
        assert_pages_fit(browser, url, scheme, width)
    assert_search_finds_a_setting(browser, url)
    assert_search_finds_a_setting(browser, site.as_uri())


def assert_pages_fit(browser: Browser, url: str, scheme: Any, width: int) -> None:  # noqa: F811
    problems: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.on("request", lambda sent: _record_foreign(problems, sent.url, url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    for name in SEEN:
        page.goto(f"{url}/{name}")
        expect(page.locator("h1").first).to_be_visible()
        excess = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(excess) <= 0, (name, width)
        shown = page.evaluate("document.body.dataset.mdColorScheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
    page.close()
    assert problems == []


def assert_search_finds_a_setting(browser: Browser, place: str) -> None:  # noqa: F811
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{place}/index.html")
    page.get_by_placeholder("Search").click()
    # What is typed before the index is there is not searched for.
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("Type to start"))
    page.get_by_placeholder("Search").press_sequentially("remote_write_labels")
    found = page.locator(".md-search-result__item a").first
    expect(found).to_have_attribute("href", re.compile("settings|metrics"))
    page.close()


def _record_foreign(problems: list[str], requested: str, url: str) -> None:
    if not requested.startswith((url, "data:", "blob:")):
        problems.append(requested)
