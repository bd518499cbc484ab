"""Requests about a node of a site that only the hub of that site can answer."""

from fleet_smi.server.endpoint import ApiError, RequestContext
from fleet_smi.server.http_error import HttpError


def require_own_node(context: RequestContext, node_id: str) -> None:
    """Raise `ApiError` (409) for a node of a site, with the URL of the hub to ask."""
    url = context.hub.sites.url_of(node_id)
    if url is not None:
        message = f"{node_id} is shown read-only: ask the hub of its site, {url}"
        raise ApiError(HttpError(409, "other_site", message))
