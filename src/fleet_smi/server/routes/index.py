"""`GET /`: the table as text for `curl`, the page for a browser."""

from html import escape
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import FleetView, Summary
from fleet_smi.model.node_summary import parts_overview
from fleet_smi.model.views import FleetParts
from fleet_smi.server.auth import NO_VIEWERS
from fleet_smi.server.endpoint import Endpoint, RequestContext, authorize_request
from fleet_smi.server.page_files import INDEX_FILE, page_files
from fleet_smi.server.routes.page import page_file_response
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import overview, status

_MIN_COLUMNS, _MAX_COLUMNS, _DEFAULT_COLUMNS = 40, 500, 120
_TABLE_AS_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{free} free · fleet-smi</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5"></head>
<body><pre>{table}</pre>
<p>This is the plain table: the page is not built here. <code>make page</code> builds it.</p></body>
</html>
"""
_NO_VIEWERS_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>fleet-smi</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5"></head>
<body><h1>This hub runs, and nobody has access to it yet.</h1>
<p>On its machine, as root or as its own user, run one of</p>
<pre>fleet-smi hub user add NAME
fleet-smi hub token add --role viewer</pre>
<p>A user then logs in here: this page opens by itself. A token is for commands and programs.</p>
</body>
</html>
"""


class IndexQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the table: its width, colours, one line per node, processes, reasons.

    `wall` is for the page, which then shows the view for a screen on the wall.
    """

    columns: Annotated[int, Meta(ge=_MIN_COLUMNS, le=_MAX_COLUMNS)] = _DEFAULT_COLUMNS
    color: bool = False
    overview: bool = False
    processes: bool = False
    why: bool = False
    wall: str | None = None


async def index(context: RequestContext) -> Response:
    """The table as text, or the page for a browser; the page needs no login, it holds no data."""
    query: IndexQuery = context.query
    html = "text/html" in context.header("accept")
    if html and _has_no_viewers(context):
        return Response(_NO_VIEWERS_PAGE, NO_VIEWERS.status, media_type="text/html")
    if html and page_files():
        return page_file_response(context, INDEX_FILE)
    context.identity = authorize_request(context.request, context.services, "view")

    async def draw() -> tuple[Summary, str]:
        paint = Paint(enabled=query.color and not html)
        # Thousands of GPUs take a moment to draw: not on the event loop.
        if query.overview:
            fleet = await context.fleet_parts()
            return fleet.summary, await run_in_query_thread(_render_overview, fleet, query, paint)
        view = await context.fleet_view()
        return view.summary, await run_in_query_thread(_render, view, query, paint)

    # Shared by all who request the same table, as with `watch curl`.
    key = "/", query, html, context.command_visibility
    summary, table = await context.services.cache.get_or_compute(key, draw)
    if html:
        page = _TABLE_AS_PAGE.format(free=summary.free, table=escape(table))
        return Response(page, media_type="text/html")
    return Response(table, media_type="text/plain")


def _has_no_viewers(context: RequestContext) -> bool:
    access, request = context.services.access, context.request
    return access.authenticate(request.scope["headers"], context.peer, "GET") is NO_VIEWERS


def _render(view: FleetView, query: IndexQuery, paint: Paint) -> str:
    return status.render(
        view, query.columns, paint, processes=query.processes, show_reasons=query.why
    )


def _render_overview(fleet: FleetParts, query: IndexQuery, paint: Paint) -> str:
    return overview.render(parts_overview(fleet), query.columns, paint)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/",
        summary="The table that `fleet-smi` prints",
        required_action=None,
        handler=index,
        query=IndexQuery,
        response=str,
        response_media_types=("text/plain", "text/html"),
        extra_statuses=(401, 403, 429),
    ),
)
