"""The files of the web page."""

from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Asked, Endpoint
from fleet_smi.server.page_files import page_files
from fleet_smi.server.refusal import Refusal

_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


async def asset(asked: Asked) -> Response:
    """A file that the page is made of."""
    return page_file(asked, f"assets/{asked.path['name']}")


async def icon(asked: Asked) -> Response:
    """The picture in the browser's tab."""
    return page_file(asked, "favicon.svg")


def page_file(asked: Asked, path: str) -> Response:
    """One file of the built page, packed for those who take it."""
    file = page_files().get(path)
    if file is None:
        raise ApiError(Refusal(404, "not_found", "there is no such file of the page"))
    headers = {
        "Cache-Control": _FOR_EVER if file.lasting else _ASK_AGAIN,
        "Vary": "Accept-Encoding",
    }
    if asked.takes_gzip:
        return Response(
            file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.kind
        )
    return Response(file.body, headers=headers, media_type=file.kind)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/assets/{name}",
        summary="A file of the web page",
        may=None,
        handle=asset,
        answer=str,
        answers_with=("text/javascript", "text/css", "image/svg+xml"),
        also=(404,),
    ),
    Endpoint(
        method="GET",
        path="/favicon.svg",
        summary="The picture of the web page",
        may=None,
        handle=icon,
        answer=str,
        answers_with=("image/svg+xml",),
        also=(404,),
    ),
)
