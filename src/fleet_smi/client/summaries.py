"""The small endpoints of a hub for status lines and assistants: summary and diagnosis."""

from urllib.parse import urlencode

from fleet_smi.client.hub import HubClient
from fleet_smi.client.responses import decode_response
from fleet_smi.errors import NotFound
from fleet_smi.model.diagnosis import Diagnosis
from fleet_smi.model.fleet_summary import FleetSummary, summarize_view


def fetch_summary(client: HubClient, user: str | None) -> FleetSummary:
    """Fetch the fleet in a few numbers; `mine` are the GPUs of this user, else of the sender."""
    query = "" if user is None else f"?{urlencode({'user': user})}"
    try:
        body = client.send("GET", f"/api/v1/summary{query}").body
    except NotFound:  # a hub of an older version
        return summarize_view(client.overview(), user)
    return decode_response(body, FleetSummary)


def fetch_diagnosis(client: HubClient, target: str) -> Diagnosis:
    """Fetch why a node, GPU or person's GPUs may be slow; raise `NotFound` if there is none."""
    query = urlencode({"target": target})
    return decode_response(client.send("GET", f"/api/v1/diagnosis?{query}").body, Diagnosis)
