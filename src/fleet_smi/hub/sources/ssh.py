"""The `ssh` source: polls nodes without an agent by running one fixed script over ssh."""

import asyncio
import secrets
import socket
from collections.abc import Sequence

from msgspec.structs import replace

from fleet_smi.config import Settings
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.hub.sources.blocking_worker import BlockingWorker
from fleet_smi.hub.sources.polling import poll_all, poll_each, poll_on_interval
from fleet_smi.hub.ssh_errors import UNRESOLVED_MESSAGE, parse_ssh_error
from fleet_smi.hub.ssh_hosts import expand_hosts, read_hosts_file, validate_host
from fleet_smi.hub.ssh_program import SshOutput, SshProgram, resolve_config_path, resolve_key_path
from fleet_smi.hub.ssh_script import REMOTE_COMMAND, build_script
from fleet_smi.wire.parsers.remote_shell import parse_script_output
from fleet_smi.wire.report import MAX_INLINE_BYTES, MAX_REPORT_BYTES, Report

__all__ = ["SshSource", "expand_hosts", "read_hosts_file"]

_DNS_TIMEOUT_SECONDS = 2.0
_SSH_FAILED_EXIT_CODE = 255  # of ssh itself; any other is that of the remote script


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that polls the hosts of `hub.ssh` and of `hub.ssh_hosts_file`."""
    hub = settings.hub
    listed = read_hosts_file(hub.ssh_hosts_file) if hub.ssh_hosts_file else ()
    hosts = expand_hosts([*hub.ssh, *listed], hub.ssh_config)
    return [
        SshSource(hosts, interval_seconds=hub.ssh_interval, config=hub.ssh_config, key=hub.ssh_key)
    ]


class SshSource:
    """Polls many hosts concurrently, each with its own timeout and one shared connection."""

    name = "ssh"

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        interval_seconds: float = 10.0,
        timeout_seconds: float = 10.0,
        concurrency: int = 32,
        config: str | None = None,
        key: str | None = None,
    ) -> None:
        self.targets = tuple(map(validate_host, hosts))
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._concurrency = concurrency
        self._config = None if config is None else resolve_config_path(config)
        self._key = None if key is None else resolve_key_path(key)
        # The script gives up on a hung program first, so that the rest still arrives in time.
        self._script_timeout_seconds = max(1, int(timeout_seconds) - 2)

    async def poll(self) -> Sequence[Delivery]:
        """Poll every host once."""
        async with self._ssh() as ssh:
            return await poll_all(self.targets, lambda host: self._poll_host(ssh, host))

    async def poll_each(self, deliver: DeliverCallback) -> None:
        """Poll every host once, and deliver each as soon as it has answered."""
        async with self._ssh() as ssh:
            await poll_each(self.targets, lambda host: self._poll_host(ssh, host), deliver)

    async def run(self, deliver: DeliverCallback) -> None:
        """Poll every host on its own schedule until cancelled."""
        # Longer than an interval: the connection stays open between two polls.
        persist_seconds = 60 + 3 * int(self._interval_seconds)
        async with self._ssh(persist_seconds) as ssh:
            await poll_on_interval(
                self.name,
                self.targets,
                lambda host: self._poll_host(ssh, host, self._interval_seconds),
                deliver,
                self._interval_seconds,
            )

    def _ssh(self, persist_seconds: int | None = None) -> SshProgram:
        return SshProgram(
            config=self._config,
            key=self._key,
            timeout_seconds=self._timeout_seconds,
            max_output_bytes=MAX_REPORT_BYTES,
            max_concurrent=self._concurrency,
            persist_seconds=persist_seconds,
        )

    async def _poll_host(
        self, ssh: SshProgram, host: str, interval_seconds: float | None = None
    ) -> Delivery:
        try:
            report = await self._fetch_report(ssh, host)
        except DeliveryError as error:
            failure = type(error)(error.message, host)
            return Delivery(source=self.name, target=host, result=failure)
        snapshot = report.snapshots[-1]
        return Delivery(
            source=self.name,
            target=host,
            # How often the hub polls, not how often an agent there would report.
            result=replace(snapshot, interval_seconds=interval_seconds),
            age_seconds=report.age_seconds(snapshot),
        )

    async def _fetch_report(self, ssh: SshProgram, host: str) -> Report:
        # Random, so that nothing else that a login prints can look like a section.
        marker = secrets.token_hex(16)
        script = build_script(marker, self._script_timeout_seconds)
        try:
            output = await ssh.run(host, REMOTE_COMMAND, script)
        except FileNotFoundError:
            raise Unreachable("no ssh on this machine: install the OpenSSH client") from None
        except OSError as error:
            raise Unreachable(f"cannot run ssh on this machine: {error.strerror}") from None
        if output.exit_code is None and not output.stdout:
            await _require_resolved(await ssh.host_name(host))
        if len(output.stdout) <= MAX_INLINE_BYTES:
            return self._parse(output, marker)
        # In a thread: 8 MiB would block the event loop for a second.
        return await asyncio.to_thread(self._parse, output, marker)

    def _parse(self, output: SshOutput, marker: str) -> Report:
        if len(output.stdout) > MAX_REPORT_BYTES:
            raise Undecodable(f"it printed more than {MAX_REPORT_BYTES >> 20} MiB")
        # Tried before the exit code: a script that was killed because the driver hangs has
        # printed the rest of the node already.
        try:
            report = parse_script_output(
                output.stdout, marker, within_deadline=output.exit_code is not None
            )
        except Undecodable:
            if output.exit_code is None:
                message = f"did not answer in {self._timeout_seconds:g} s"
                raise Unreachable(message) from None
            if output.exit_code == _SSH_FAILED_EXIT_CODE:
                raise parse_ssh_error(output.stderr) from None
            raise
        if not report.snapshots:
            raise Undecodable("its report has no snapshot")
        return report


async def _require_resolved(name: str | None) -> None:
    """Raise `Unreachable` if a host did not answer because its name has no address.

    ssh itself waits for DNS without a limit, and is killed before it can say so.
    """
    if name is None:
        return
    worker = BlockingWorker("DNS")
    try:
        await worker.call(lambda: socket.getaddrinfo(name, None), _DNS_TIMEOUT_SECONDS)
    except TimeoutError:
        raise Unreachable(f"DNS does not answer for {name}: check /etc/resolv.conf") from None
    except OSError:
        raise Unreachable(UNRESOLVED_MESSAGE) from None
    finally:
        worker.close()
