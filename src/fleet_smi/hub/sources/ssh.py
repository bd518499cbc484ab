"""The hub's end of `ssh`: nodes on which nothing is installed, asked by one fixed command."""

import secrets
from collections.abc import Sequence

from msgspec.structs import replace

from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.hub.delivery import Deliver, Delivery
from fleet_smi.hub.sources.polling import ask_all, keep_asking
from fleet_smi.hub.ssh_failures import failure_of
from fleet_smi.hub.ssh_hosts import checked_host, expand_hosts, read_hosts_file
from fleet_smi.hub.ssh_program import Output, SshProgram, checked_config, checked_key
from fleet_smi.hub.ssh_script import COMMAND, script
from fleet_smi.wire.dialects.remote_shell import parse
from fleet_smi.wire.report import MOST_BYTES, Report

__all__ = ["SshSource", "expand_hosts", "read_hosts_file"]

_SSH_FAILED = 255


class SshSource:
    """Asks many hosts at once, each with its own deadline, over one connection each."""

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
        self.targets = tuple(map(checked_host, hosts))
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._concurrency = concurrency
        self._config = None if config is None else checked_config(config)
        self._key = None if key is None else checked_key(key)
        # The node's own programs are given up before the node is.
        self._patience_seconds = max(1, int(timeout_seconds) - 2)

    async def look(self) -> Sequence[Delivery]:
        """Ask every host once."""
        async with self._ssh() as ssh:
            return await ask_all(self.targets, lambda host: self._ask(ssh, host))

    async def run(self, deliver: Deliver) -> None:
        """Ask every host on its own ticks until cancelled."""
        keep_seconds = 60 + 3 * int(self._interval_seconds)
        async with self._ssh(keep_seconds) as ssh:
            await keep_asking(
                self.targets,
                lambda host: self._ask(ssh, host, self._interval_seconds),
                deliver,
                self._interval_seconds,
            )

    def _ssh(self, keep_seconds: int | None = None) -> SshProgram:
        return SshProgram(
            config=self._config,
            key=self._key,
            timeout_seconds=self._timeout_seconds,
            most_bytes=MOST_BYTES,
            most_at_once=self._concurrency,
            keep_seconds=keep_seconds,
        )

    async def _ask(
        self, ssh: SshProgram, host: str, interval_seconds: float | None = None
    ) -> Delivery:
        try:
            report = await self._report(ssh, host)
        except DeliveryError as error:
            named = type(error)(error.words, host)
            return Delivery(source=self.name, target=host, what=named)
        snapshot = report.snapshots[-1]
        return Delivery(
            source=self.name,
            target=host,
            what=replace(snapshot, interval_seconds=interval_seconds),
            age_seconds=report.age_seconds(snapshot),
        )

    async def _report(self, ssh: SshProgram, host: str) -> Report:
        mark = secrets.token_hex(16)
        try:
            output = await ssh.run(host, COMMAND, script(mark, self._patience_seconds))
        except FileNotFoundError:
            raise Unreachable("no ssh on this machine: install the OpenSSH client") from None
        except OSError as error:
            raise Unreachable(f"ssh cannot be run here: {error.strerror}") from None
        return self._read(output, mark)

    def _read(self, output: Output, mark: str) -> Report:
        if len(output.body) > MOST_BYTES:
            raise Undecodable(f"it printed more than {MOST_BYTES >> 20} MiB")
        try:
            report = parse(output.body, mark, in_time=output.exit_code is not None)
        except Undecodable:
            if output.exit_code is None:
                words = f"did not answer in {self._timeout_seconds:g} s"
                raise Unreachable(words) from None
            if output.exit_code == _SSH_FAILED:
                raise failure_of(output.complaint) from None
            raise
        if not report.snapshots:
            raise Undecodable("its report has no snapshot in it")
        return report
