"""`GET /`: the table for curl, the page for a browser."""

from tests.server.threaded_hub import ThreadedHub, error_code


def test_curl_gets_the_table_and_a_browser_a_page(hub: ThreadedHub) -> None:
    table = hub.request("GET", "/", Accept="*/*")
    assert table.headers["content-type"] == "text/plain; charset=utf-8"
    text = table.body.decode()
    assert "gpu01" in text
    assert max(map(len, text.splitlines())) <= 120
    page = hub.request("GET", "/", Accept="text/html,application/xhtml+xml")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.body.decode().startswith("<!doctype html>")


def test_the_table_follows_the_options_of_the_query(hub: ThreadedHub) -> None:
    assert "\x1b[" in hub.request("GET", "/?color=true").body.decode()
    assert "\x1b[" not in hub.request("GET", "/?color=true", Accept="text/html").body.decode()
    narrow = hub.request("GET", "/?columns=60&overview=true").body.decode()
    assert max(map(len, narrow.splitlines())) <= 60
    assert "alice" in hub.request("GET", "/?processes=true").body.decode()
    assert error_code(hub.request("GET", "/?columns=7")) == "bad_query"
