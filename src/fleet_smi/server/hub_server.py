"""The hub as a server: wires state, sources, access rules, history and sockets together."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from fleet_smi.config.ip_addresses import WILDCARDS, is_loopback
from fleet_smi.config.settings import HubSettings
from fleet_smi.failure_log import FailureLog
from fleet_smi.fleet.delivery import Source
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.hub import state_folder
from fleet_smi.hub.closings import ClosingStore
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import open_database
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.node_summaries import NodeSummaries
from fleet_smi.hub.problems import ProblemReport, ReadError
from fleet_smi.hub.queue.store import QueueStore
from fleet_smi.hub.reservations import ReservationBook
from fleet_smi.hub.sites.follower import SiteFollower
from fleet_smi.hub.sites.site_settings import read_sites
from fleet_smi.hub.sites.sites import Sites
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.hub.sources.push import PushSource
from fleet_smi.hub.wheelhouse import FOLDER as WHEELHOUSE_FOLDER
from fleet_smi.hub.wheelhouse import Wheelhouse
from fleet_smi.model.hub_problems import ProblemKind
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.paths import ensure_private_folder
from fleet_smi.server.app import App
from fleet_smi.server.auth import AccessControl, bind_warning
from fleet_smi.server.certificate_reload import LiveCertificate, TlsFiles
from fleet_smi.server.endpoint import cached_nodes
from fleet_smi.server.hub_parts import (
    build_cluster_hub,
    build_exporters,
    build_hub,
    build_queue,
    open_cluster,
)
from fleet_smi.server.listeners import Listener, build_listeners
from fleet_smi.server.middleware import AllowedHosts
from fleet_smi.server.rate_limit import AuthRateLimiter
from fleet_smi.server.services import Services
from fleet_smi.server.single_flight import SingleFlightCache
from fleet_smi.server.tls import hub_certificate
from fleet_smi.server.uvicorn_server import bind_sockets, serve
from fleet_smi.wire.prometheus import OwnMetrics

if TYPE_CHECKING:
    from fleet_smi.hub.cluster.link import ClusterLink
    from fleet_smi.hub.metric_export.exporter import MetricExporter

logger = logging.getLogger(__name__)
_CREDENTIAL_REFRESH_SECONDS = 1.0
_RESTART_SECONDS = 30.0


class HubServer:
    """A hub with its listening sockets; nothing is received or answered before `run`.

    Creating one locks the state folder, opens the databases and binds the sockets. Raises
    `StateError` if another hub has the folder, `UsageError` if anyone could read the hub.
    """

    def __init__(
        self, settings: HubSettings, sources: Sequence[Source], thresholds: Thresholds
    ) -> None:
        ensure_private_folder(settings.state)
        self.state_folder = Path(settings.state)
        self._proxies = settings.trusted_proxies
        self._refresh_log = FailureLog(logger, "credentials")
        # What was opened is closed in reverse order, also if a later step fails.
        with ExitStack() as stack:
            # The lock first: a second hub must not touch anything in the folder.
            stack.callback(os.close, state_folder.lock_folder(self.state_folder))
            cluster = open_cluster(settings, self.state_folder)
            self._engine = open_database(self.state_folder) if cluster is None else cluster.engine
            stack.callback(self._engine.dispose)
            # Before these files exist, so that they are removed if a step below fails.
            stack.callback(state_folder.remove_runtime_files, self.state_folder)
            self.credentials = self._credentials(settings.nodes_most)
            stack.callback(self.credentials.close)
            self.tls, self.fingerprint = _certificate(
                settings, self.state_folder, self._write_address
            )
            # One of our own stays: nodes trust its fingerprint.
            self._renewed = self.tls if self.fingerprint is None else None
            self.warning = self._bind_warning(settings)
            self._push = PushSource()
            identities = NodeIdentities(
                settings.trusted_transports, self.credentials.has_node_credential
            )
            self._site_list = read_sites(settings)
            followed = Sites(self._site_list, settings.nodes_most) if self._site_list else None
            rest = [self._push, *sources], thresholds, identities, followed
            if cluster is None:
                node_store = NodeStore(self._engine, NodeCheckpoint)
                parts = build_hub(stack, settings, self.state_folder, node_store, *rest)
            else:
                parts = build_cluster_hub(stack, settings, cluster, *rest)
            self.hub, self.archive, self._link = parts.hub, parts.archive, parts.link
            self.queue = build_queue(
                settings, self.hub, QueueStore(self._engine), self.archive, cluster
            )
            self.closings = ClosingStore(self._engine, self.hub.clock)
            self.hub.fleet.views.set_closings(self.closings.current)
            self.reservations = ReservationBook(self._engine, self.hub)
            self.exporters = build_exporters(stack, settings, self.hub, self.state_folder)
            self.wheelhouse = Wheelhouse(self.state_folder / WHEELHOUSE_FOLDER)
            self.problems = self._problem_report(parts.node_store)
            for exporter in self.exporters.values():
                exporter.own_metrics = self._own_metrics
            self._sockets = bind_sockets(settings.listen.host, settings.listen.port)
            for bound in self._sockets:
                stack.callback(bound.close)
            self._app = self._build_app(settings)
            self.listeners = build_listeners(settings, self.hub)
            others = sources, self._site_list, self.exporters, self._link, self.listeners
            self._has_other_io = any(others)
            # The address file last: commands that find it can connect.
            self.url = self._url(settings.listen.host, socket.gethostname())
            self._local_url = self._url(settings.listen.host, "127.0.0.1")
            self._write_address()
            self._resources = stack.pop_all()

    async def run(self) -> None:
        """Receive reports and answer requests until cancelled."""
        if self._link is not None:
            self._exchange_credentials(self._link)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.hub.run())
            group.create_task(
                serve(self._app, self._sockets, self.tls, trusted_proxies=self._proxies)
            )
            group.create_task(self._refresh_credentials())
            group.create_task(_run_listener("queue", self.queue))
            group.create_task(self.reservations.run())
            if self._renewed is not None:
                group.create_task(self._renewed.watch())
            for exporter in self.exporters.values():
                group.create_task(_run_listener(exporter.name, exporter))
            for site in self._site_list:
                follower = SiteFollower(site, self.hub.sites, self.hub.clock)
                group.create_task(follower.run())
            for name, listener in self.listeners.items():
                group.create_task(_run_listener(name, listener))

    def has_only_reports(self) -> bool:
        """Whether nothing but pushed reports was handled since the last call."""
        was_idle = self._app.activity.was_idle(self.hub.stream.subscriber_count)
        return was_idle and not self._has_other_io

    def reload(self) -> None:
        """Read the certificate, tokens and users again, as after SIGHUP. Blocking."""
        if self._renewed is not None:
            self._renewed.reload()
        self.credentials.refresh()

    def close(self) -> None:
        """Write what is not yet saved, and release every resource."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_address(self) -> None:
        """Write where this hub listens, and the certificate that its own user's commands pin.

        A certificate of the admin's own too: it has the name of the hub, and not the address of
        this machine, by which those commands connect.
        """
        presented = None if self.tls is None else self.tls.fingerprint
        state_folder.write_running_hub(
            self.state_folder, state_folder.RunningHub(self.url, self._local_url, presented)
        )

    def _credentials(self, max_nodes: int) -> CredentialCache:
        return CredentialCache(
            self._engine,
            local_admin_token=state_folder.create_local_admin_token(self.state_folder),
            max_nodes=max_nodes,
        )

    def _problem_report(self, node_store: NodeStore[NodeCheckpoint]) -> ProblemReport:
        archive, exporters, link = self.archive, self.exporters, self._link
        errors: dict[ProblemKind, ReadError] = {
            "history": lambda: None if archive is None else archive.write_error,
            "nodes": lambda: node_store.last_error,
            "credentials": lambda: self.credentials.last_error,
            **{name: _error_of(each) for name, each in exporters.items()},
            "cluster": lambda: None if link is None else link.problem,
        }
        return ProblemReport(self.state_folder, errors, self.hub.clock)

    def _own_metrics(self) -> OwnMetrics:
        counts = dict(self.hub.counts())
        for exporter in self.exporters.values():
            counts |= exporter.counts()
        return OwnMetrics(counts, self.problems.current_kinds())

    def _bind_warning(self, settings: HubSettings) -> str | None:
        return bind_warning(
            settings.listen.host,
            has_viewers=self.credentials.has_viewer_credentials,
            insecure_open=settings.insecure_open,
            tls=self.tls is not None,
            proxied=bool(settings.trusted_proxies),
        )

    def _build_app(self, settings: HubSettings) -> App:
        host = settings.listen.host
        access = AccessControl(
            self.credentials,
            AuthRateLimiter(time.monotonic),
            loopback_only=is_loopback(host),
            insecure_open=settings.insecure_open,
            trusted_proxies=settings.trusted_proxies,
            user_header=settings.user_header,
            admins=settings.admins,
            tls=self.tls is not None,
            base_path=settings.base_path or "",
        )
        services = Services(
            hub=self.hub,
            push=self._push,
            credentials=self.credentials,
            access=access,
            cache=SingleFlightCache(lambda: self.hub.version),
            summaries=NodeSummaries(self.hub.shown),
            commands_for_viewers=settings.commands_for_viewers,
            commands_for_admins=settings.commands_for_admins,
            tls=self.tls is not None,
            fingerprint=self.fingerprint,
            base_path=settings.base_path or "",
            public_url=settings.public_url,
            get_status_password=settings.read_get_status_password(),
            node_budget_seconds=settings.node_budget,
            history=None if self.archive is None else self.archive.queries,
            energy_price=settings.energy_price,
            currency=settings.currency,
            problems=self.problems,
            queue=self.queue,
            closings=self.closings,
            reservations=self.reservations,
            own_metrics=self._own_metrics,
            wheelhouse=self.wheelhouse,
        )
        if services.history is not None:
            services.history.yield_to_reports = services.backpressure.yield_to_reports
        self.queue.collect_parts = partial(cached_nodes, services)
        names = [socket.getfqdn(), socket.gethostname(), *settings.hosts]
        if settings.public_url is not None:
            names.append(urlsplit(settings.public_url).hostname or "")
        return App(services, AllowedHosts(host, names))

    def _url(self, host: str, wildcard_host: str) -> str:
        """The URL of the hub; one that listens on all addresses is named by `wildcard_host`."""
        port = self._sockets[0].getsockname()[1]
        host = wildcard_host if host in WILDCARDS else host
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def _exchange_credentials(self, link: "ClusterLink") -> None:
        """Tell other hubs of changes to tokens and users, and read theirs at once."""
        loop = asyncio.get_running_loop()

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(link.send_credentials_changed)

        self.credentials.on_change = changed

        def refresh() -> None:
            loop.run_in_executor(None, self.credentials.refresh)

        link.on_credentials = refresh

    async def _refresh_credentials(self) -> None:
        """Reload tokens and users: commands change the database of a running hub directly."""
        async for _ in ticks(_CREDENTIAL_REFRESH_SECONDS):
            try:
                await asyncio.to_thread(self.credentials.refresh)
                await asyncio.to_thread(self.problems.refresh)
                await asyncio.to_thread(self.closings.refresh)
                self.hub.fleet.views.set_closings(self.closings.current)
            except Exception as error:  # noqa: BLE001  # the cached ones stay valid
                self._refresh_log.record_failure(error)
            else:
                self._refresh_log.record_success()


def _error_of(exporter: "MetricExporter") -> ReadError:
    return lambda: exporter.error


async def _run_listener(name: str, listener: Listener) -> None:
    """Run a listener, and again after a bug: it must not end the hub."""
    while True:
        try:
            await listener.run()
        except Exception:
            logger.exception("listener=%s has a bug", name)
        await asyncio.sleep(_RESTART_SECONDS)


def _certificate(
    settings: HubSettings, folder: Path, on_renewal: Callable[[], None]
) -> tuple[LiveCertificate | None, str | None]:
    """The certificate to present, and its fingerprint where nodes pin it."""
    # The admin's own certificate is not pinned: clients verify it by its authority.
    if settings.tls_cert is not None and settings.tls_key is not None:
        return LiveCertificate(TlsFiles(settings.tls_cert, settings.tls_key), on_renewal), None
    if settings.tls is None:
        return None, None
    own = hub_certificate(folder, settings.hosts)
    files = TlsFiles(str(own.path), str(own.path))
    return LiveCertificate(files, on_renewal), own.fingerprint
