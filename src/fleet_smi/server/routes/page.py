"""`/assets/{name}` and `/favicon.svg`: the files of the web page, with cache headers."""

from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.page_files import page_files

_CACHE_FOREVER = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"


async def page_asset(context: RequestContext) -> Response:
    """A script or style sheet of the page."""
    return page_file_response(context, f"assets/{context.path_params['name']}")


async def favicon(context: RequestContext) -> Response:
    """The icon in the browser's tab."""
    return page_file_response(context, "favicon.svg")


def page_file_response(context: RequestContext, path: str) -> Response:
    """A response with one file of the built page, compressed as the client accepts it."""
    file = page_files().get(path)
    if file is None:
        raise ApiError(HttpError(404, "not_found", "the page has no such file"))
    headers = {
        "Cache-Control": _CACHE_FOREVER if file.immutable else _REVALIDATE,
        "Vary": "Accept-Encoding",
    }
    body = file.body
    for coding, compressed in (("br", file.brotli), ("gzip", file.gzipped)):
        if compressed is not None and context.accepts_encoding(coding):
            body, headers["Content-Encoding"] = compressed, coding
            break
    return Response(body, headers=headers, media_type=file.media_type)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/assets/{name}",
        summary="A file of the web page",
        required_action=None,
        handler=page_asset,
        response=str,
        response_media_types=("text/javascript", "text/css", "image/svg+xml"),
        extra_statuses=(404,),
    ),
    Endpoint(
        method="GET",
        path="/favicon.svg",
        summary="The icon of the web page",
        required_action=None,
        handler=favicon,
        response=str,
        response_media_types=("image/svg+xml",),
        extra_statuses=(404,),
    ),
)
