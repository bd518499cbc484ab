"""The queue of a hub as a table of texts."""

from collections.abc import Sequence

from fleet_smi.client.hub import HubClient


def queue_table(client: HubClient) -> Sequence[Sequence[str]] | None:
    """Return headings and rows; `None` where the hub has no queue."""
    return None
