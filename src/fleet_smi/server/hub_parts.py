"""The parts of a hub that are made from its settings: fleet, node store, history, hub."""

from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet_smi.config.settings import HubSettings
from fleet_smi.config.value_types import OFF
from fleet_smi.extras import require_extra
from fleet_smi.fleet.delivery import Source
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.hub.elapsed_clock import elapsed_seconds
from fleet_smi.hub.history.archive import Archive
from fleet_smi.hub.history.storage import store
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.queue.keeper import QueueKeeper
from fleet_smi.hub.queue.past import QueuePast
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.hub.sites.sites import Sites
from fleet_smi.model.queue.limits import QueueLimits
from fleet_smi.model.verdict.thresholds import Thresholds

if TYPE_CHECKING:  # a hub does not load what only others need
    from fleet_smi.hub.cluster.link import ClusterLink
    from fleet_smi.hub.cluster.setup import ClusterSetup
    from fleet_smi.hub.metric_export.exporter import ExporterName, MetricExporter


class HubParts(NamedTuple):
    """A hub, its history (`None` if that is off), its node store, and its link to other hubs."""

    hub: Hub
    archive: Archive | None
    node_store: NodeStore[NodeCheckpoint]
    link: "ClusterLink | None" = None


def open_cluster(settings: HubSettings, folder: Path) -> "ClusterSetup | None":
    """Open what the hubs of a cluster share; `None` for a hub that is alone."""
    if not settings.cluster:
        return None
    from fleet_smi.hub.cluster.setup import ClusterSetup

    return ClusterSetup(settings, folder)


def build_hub(
    stack: ExitStack,
    settings: HubSettings,
    folder: Path,
    node_store: NodeStore[NodeCheckpoint],
    sources: Sequence[Source],
    thresholds: Thresholds,
    identities: NodeIdentities,
    sites: Sites | None,
) -> HubParts:
    """Build a hub that is alone; `stack` closes what was opened."""
    stack.callback(node_store.close)
    fleet = FleetState(thresholds, identities, settings.nodes_most)
    archive = None
    if settings.history != OFF:
        location = settings.history or folder / store.HISTORY_FILE
        archive = Archive(location, _retention(settings), fleet)
        stack.callback(archive.close)
    history = None if archive is None else archive.recorder
    hub = Hub(fleet, sources, node_store, history=history, **_options(settings, sites))
    return HubParts(hub, archive, node_store)


def build_cluster_hub(
    stack: ExitStack,
    settings: HubSettings,
    cluster: "ClusterSetup",
    sources: Sequence[Source],
    thresholds: Thresholds,
    identities: NodeIdentities,
    sites: Sites | None,
) -> HubParts:
    """Build one hub of a cluster; `stack` closes what was opened."""
    node_store = cluster.create_node_store()
    stack.callback(node_store.close)
    fleet = cluster.create_fleet(thresholds, identities)
    archive = cluster.create_archive(_retention(settings), fleet)
    stack.callback(archive.close)
    hub = cluster.create_hub(fleet, sources, node_store, archive, **_options(settings, sites))
    return HubParts(hub, archive, node_store, hub.link)


def build_queue(
    settings: HubSettings,
    hub: Hub,
    store: QueueStore,
    archive: Archive | None,
    cluster: "ClusterSetup | None",
) -> QueueKeeper:
    """Build the queue; in a cluster the leader makes its offers."""
    past = QueuePast(None if archive is None else archive.queries)
    limits = QueueLimits(settings.queue_per_person, settings.queue_most)
    if cluster is None:
        return QueueKeeper(hub, store, past, limits)
    leadership = cluster.leadership
    store.fence = leadership.holds
    return QueueKeeper(
        hub, store, past, limits, is_leader=lambda: leadership.is_leader, shared=True
    )


def build_exporters(
    stack: ExitStack, settings: HubSettings, hub: Hub, folder: Path
) -> "dict[ExporterName, MetricExporter]":
    """Build the senders to long-term stores of series, by name."""
    urls: dict[ExporterName, str | None] = {
        "remote_write": settings.remote_write,
        "otlp": settings.otlp,
    }
    exporters: dict[ExporterName, MetricExporter] = {}
    for name, url in urls.items():
        if url is not None:
            exporters[name] = _build_exporter(name, url, settings, hub, folder)
            stack.callback(exporters[name].close)
    return exporters


def _build_exporter(
    name: "ExporterName", url: str, settings: HubSettings, hub: Hub, folder: Path
) -> "MetricExporter":
    extra = name.replace("_", "-")
    require_extra(extra, f"hub.{name}")
    # Imported here, because only some hubs need their libraries.
    from fleet_smi.hub.metric_export.exporter import MetricExporter

    module = import_module(f"fleet_smi.hub.metric_export.{name}")
    return MetricExporter(name, hub, module.create_export(settings, url), folder / extra)


def _options(settings: HubSettings, sites: Sites | None) -> dict[str, Any]:
    return {
        "sites": sites,
        "interval_seconds": settings.interval,
        "publish_seconds": settings.stream_interval,
        "checkpoint_seconds": settings.remember_interval,
        "elapsed_clock": elapsed_seconds,
    }


def _retention(settings: HubSettings) -> RetentionPolicy:
    return RetentionPolicy(
        series_seconds={
            10: settings.history_keep_10s,
            60: settings.history_keep_1m,
            900: settings.history_keep_15m,
            10800: settings.history_keep_ledger,  # the coarsest lasts as long as the ledger
        },
        ledger_seconds=settings.history_keep_ledger,
        max_bytes=settings.history_most,
    )
