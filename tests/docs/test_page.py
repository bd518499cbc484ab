"""docs/page.md matches the web page: its addresses, keys and API calls."""

import re

from fleet_smi.server.app import load_endpoints
from tests.docs.pages import PROJECT, code_spans, page, table_rows

TEXT = page("docs/page.md")
SOURCE = PROJECT / "web" / "src"


def _source(name: str) -> str:
    return (SOURCE / name).read_text(encoding="utf-8")


def test_every_view_has_its_address_and_no_other() -> None:
    (listed,) = re.findall(r"export const VIEWS = \[(.+)\]", _source("state/route.ts"))
    views = [view if view != "grid" else "" for view in re.findall(r'"(\w+)"', listed)]
    written = [code_spans(row[0])[0].split("/")[1] for row in table_rows(TEXT, "address")]
    assert sorted(written) == sorted(views)


def test_every_key_is_documented_as_on_the_page() -> None:
    (listed,) = re.findall(
        r"export const SHORTCUTS.*?\[\n(.+?)^\];", _source("text/shortcuts.ts"), re.M | re.S
    )
    keys = re.findall(r'\["(.+?)", "(.+?)"\]', listed)
    assert [(code_spans(key)[0], action) for key, action in table_rows(TEXT, "key")] == keys


def test_every_documented_api_call_exists() -> None:
    there = {f"{each.method} {each.path.replace(':path', '')}" for each in load_endpoints()}
    endpoints = set(re.findall(r"`(GET /api/[^`]+)`", TEXT))
    assert endpoints
    assert endpoints <= there


def test_it_is_one_screen() -> None:
    assert len(TEXT.splitlines()) <= 60
