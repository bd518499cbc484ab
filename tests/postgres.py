"""A real PostgreSQL server for tests, in a temporary folder, on a Unix socket only."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from tests.machines import require_program, wait_until

_ROLE = "fleet"
# For speed: crash safety of the server itself is not under test.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=256MB")


def find_program(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL; skip the test without it."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2])
    )
    path = os.pathsep.join((*map(str, reversed(folders)), os.environ["PATH"]))
    found = shutil.which(name, path=path)
    if found is None:
        require_program(name)
    return found or ""


class Postgres:
    """One server. PostgreSQL refuses to run as root, so root runs it as another user."""

    def __init__(self, folder: Path, address: str = "", prefix: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._address, self._prefix = address, prefix
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._user = None
        if os.geteuid() == 0:
            self._user = next(name for name in ("postgres", "nobody") if _exists(name))
            shutil.chown(folder, self._user)
        made = [find_program("initdb"), "-D", self._data, "-U", _ROLE, "-A", "trust", "--no-sync"]
        self._run(*map(str, made), "--encoding=UTF8", "--locale=C")
        if address:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 10.0.0.0/24 trust\n")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = [part for setting in _QUICK for part in ("-c", setting)]
        command = [find_program("postgres"), "-D", str(self._data), "-k", str(self._folder)]
        if self._prefix and self._user:
            # Entering another host's network takes root: the user is changed after it.
            command = [*self._prefix, "setpriv", "--reuid", self._user, "--clear-groups", *command]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-c", f"listen_addresses={self._address}", *options],
                user=None if self._prefix else self._user,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers)

    def stop(self) -> None:
        """Stop it and disconnect all clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # a "fast" shutdown; SIGTERM waits for clients
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End it at once, as a crash of its machine would."""
        if self._process is not None:
            self._process.send_signal(
                signal.SIGQUIT
            )  # an "immediate" shutdown, without a checkpoint
            self._process.wait()
            self._process = None

    def connect(self) -> psycopg.Connection:
        """Open a connection with autocommit."""
        return psycopg.connect(
            host=str(self._folder), user=_ROLE, dbname="postgres", autocommit=True
        )

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of an empty schema, which is dropped afterwards."""
        name = f"test_{secrets.token_hex(4)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        query = urlencode({"host": self._folder, "options": f"-csearch_path={name}"})
        yield f"postgresql://{_ROLE}@/postgres?{query}"
        with self.connect() as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")

    def over_network(self, url: str) -> str:
        """Return the URL of a database as other hosts reach it."""
        return url.replace(urlencode({"host": self._folder}), f"host={self._address}")

    def _run(self, *command: str) -> None:
        subprocess.run(command, user=self._user, cwd=self._folder, check=True, capture_output=True)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_server(address: str = "", prefix: tuple[str, ...] = ()) -> Iterator[Postgres]:
    """Run a server for the duration of the block, on a Unix socket and maybe an address."""
    find_program("initdb")
    # Not below pytest's tmp_path, whose mode 0700 shuts out the user the server runs as.
    with tempfile.TemporaryDirectory(prefix="fleet-smi-postgres-") as folder:
        server = Postgres(Path(folder), address, prefix)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _exists(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except KeyError:
        return False
