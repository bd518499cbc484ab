"""A real NATS server for tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.machines import require_program, wait_until
from tests.ports import free_port


class Nats:
    """One server, at `url`; what it carries is gone when it stops."""

    def __init__(
        self, folder: Path, *, address: str = "127.0.0.1", configuration: str = ""
    ) -> None:
        """Create it; `configuration` is what its configuration file has besides the address."""
        self._folder = folder
        self._configuration = configuration
        self._port = free_port()
        self._address = address
        self.url = f"nats://{address}:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *prefix: str) -> None:
        """Start it, and wait until it accepts connections; `prefix` runs it on another host."""
        log = self._folder / "nats.log"
        log.write_bytes(b"")
        settings = self._folder / "nats.conf"
        settings.write_text(self._configuration)
        command = ["nats-server", "-c", str(settings)]
        command += ["-a", self._address, "-p", str(self._port), "-l", str(log)]
        self._process = subprocess.Popen([*prefix, *command])
        wait_until(lambda: b"Server is ready" in log.read_bytes())

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def nats_server(folder: Path, configuration: str = "") -> Iterator[Nats]:
    """Run a server for the duration of the block."""
    require_program("nats-server")
    server = Nats(folder, configuration=configuration)
    server.start()
    try:
        yield server
    finally:
        server.kill()
