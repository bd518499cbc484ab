"""The files of the page: compressed as the client accepts it, and cached by their names."""

import pytest

from fleet_smi.server.page_files import page_files
from tests.server.threaded_hub import ThreadedHub


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip", "gzip"), ("identity", None)],
)
def test_a_file_has_the_best_coding_that_the_client_accepts(
    hub: ThreadedHub, accepted: str, coding: str | None
) -> None:
    scripts = [name for name in page_files() if name.endswith(".js")]
    if not scripts:
        pytest.skip("the page is not built: `make page` builds it")
    file = page_files()[scripts[0]]
    response = hub.request("GET", f"/{scripts[0]}", Accept_Encoding=accepted)
    assert response.headers.get("content-encoding") == coding
    assert response.headers["vary"] == "Accept-Encoding"
    assert "immutable" in response.headers["cache-control"]
    if coding != "gzip":  # which the client of the test decompresses
        assert response.body == (file.brotli if coding == "br" else file.body)
