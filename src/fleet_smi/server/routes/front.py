"""`GET /`: the table, as `curl` or a browser likes it."""

import asyncio
from html import escape
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.model.fleet import FleetView
from fleet_smi.server.endpoint import Asked, Endpoint, admitted
from fleet_smi.server.page_files import INDEX, page_files
from fleet_smi.server.routes.page import page_file
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import overview, status

_NARROWEST, _WIDEST, _USUAL = 40, 500, 120
_TABLE_AS_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{free} free · fleet-smi</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5"></head>
<body><pre>{table}</pre>
<p>This is the plain table: the page is not built here. <code>make page</code> builds it.</p></body>
</html>
"""


class FrontQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the table is drawn: in `columns` columns, in colour, one line a node, with reasons."""

    columns: Annotated[int, Meta(ge=_NARROWEST, le=_WIDEST)] = _USUAL
    color: bool = False
    overview: bool = False
    processes: bool = False
    why: bool = False


async def front(asked: Asked) -> Response:
    """The plain table; for a browser the page, which anybody may have: it holds no data."""
    query: FrontQuery = asked.query
    html = "text/html" in asked.header("accept")
    if html and page_files():
        return page_file(asked, INDEX)
    asked.who = admitted(asked.request, asked.services, "view")
    view = await asked.fleet()
    paint = Paint(on=query.color and not html)
    # Thousands of GPUs take a second to draw: not on the event loop.
    table = await asyncio.to_thread(_drawn, view, query, paint)
    if html:
        page = _TABLE_AS_PAGE.format(free=view.summary.free, table=escape(table))
        return Response(page, media_type="text/html")
    return Response(table, media_type="text/plain")


def _drawn(view: FleetView, query: FrontQuery, paint: Paint) -> str:
    if query.overview:
        return overview.render(view, query.columns, paint)
    return status.render(view, query.columns, paint, processes=query.processes, why=query.why)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/",
        summary="The table that `fleet-smi` prints",
        may=None,
        handle=front,
        query=FrontQuery,
        answer=str,
        answers_with=("text/plain", "text/html"),
        also=(401, 403, 429),
    ),
)
