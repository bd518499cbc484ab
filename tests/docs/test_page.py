"""The page's own page says what the page has: its addresses, its keys, what it asks of a hub."""

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


def test_every_key_is_documented_as_the_page_itself_does() -> None:
    (listed,) = re.findall(
        r"export const SHORTCUTS.*?\[\n(.+?)^\];", _source("text/shell.ts"), re.M | re.S
    )
    keys = re.findall(r'\["(.+?)", "(.+?)"\]', listed)
    assert [(code_spans(key)[0], deed) for key, deed in table_rows(TEXT, "key")] == keys


def test_what_it_asks_of_a_hub_is_what_a_hub_answers() -> None:
    there = {f"{each.method} {each.path.replace(':path', '')}" for each in load_endpoints()}
    asked = set(re.findall(r"`(GET /api/[^`]+)`", TEXT))
    assert asked
    assert asked <= there


def test_it_is_one_screen() -> None:
    assert len(TEXT.splitlines()) <= 60
