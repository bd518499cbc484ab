"""Install fleet-smi from a hub's wheelhouse: one venv per version, and a link to the current one.

The hub's install script contains this file, so it runs by itself: with Python 3.10, without pip,
and with nothing installed. `fleet-smi agent upgrade` imports it.
"""

import compileall
import hashlib
import http.client
import io
import os
import re
import shutil
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from urllib.parse import urlsplit

from fleet_smi.node.bindings.wheel_tags import (
    InstallError,
    Wheel,
    choose_wheels,
    describe_python,
)

CURRENT = "current"
_SYSTEM_PREFIX = "/opt/fleet-smi-agent"
_NEEDED_BYTES = 64 << 20
_MAX_WHEEL_BYTES = 64 << 20
_SECONDS = 30.0
_NETWORK_DISKS = ("nfs", "cifs", "smb", "fuse.", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs")
_DEFAULT_PORT = 7070  # of a URL without one, as for the agent
COMMANDS = ("fleet-smi", "fsmi")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# The hub's own parts, which an agent never imports.
_NOT_COMPILED = re.compile(r"/fleet_smi/(hub|server|simulation|compat)/")
_MAX_SHEBANG = 127


class HubFiles:
    """Downloads from a hub, whose certificate is pinned by `fingerprint` where there is one."""

    def __init__(self, url: str, fingerprint: str | None, token: str | None) -> None:
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._fingerprint = fingerprint
        self.token = token

    def require_encryption(self) -> None:
        """Raise `InstallError` where others on the network could read the token."""
        if self._parts.scheme != "https" and self._parts.hostname not in _LOOPBACK:
            raise InstallError(
                f"{self.url} is not encrypted, and others could read the join token: let the hub "
                "use TLS (hub.tls), or accept that with --insecure-http"
            )

    def fetch(self, path: str) -> bytes:
        """The body of a file; raise `InstallError` with the remedy."""
        try:
            connection = self._connect()
            try:
                headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
                connection.request("GET", self._parts.path + path, headers=headers)
                response = connection.getresponse()
                body = response.read(_MAX_WHEEL_BYTES)
            finally:
                connection.close()
        except ssl.SSLCertVerificationError:
            raise InstallError(
                f"the certificate of {self.url} is not trusted here: use the line that "
                "`fleet-smi hub join-command` prints now"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise InstallError(
                f"the hub {self.url} cannot be reached from here: {error}; check the name and the "
                "firewall, or name an address that this machine reaches with --url"
            ) from None
        if response.status in (401, 403, 429):
            raise InstallError(
                "the hub refuses the token: it is expired, used up or revoked; "
                "`fleet-smi hub join-command` prints a new one"
            )
        if response.status != http.client.OK:
            raise InstallError(f"the hub {self.url} answers {path} with {response.status}")
        return body

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port or _DEFAULT_PORT
        if self._parts.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=_SECONDS)
        context = ssl.create_default_context()
        if self._fingerprint:
            # The pin replaces both checks, as in the agent.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
        connection.connect()
        if self._fingerprint:
            certificate = connection.sock.getpeercert(binary_form=True) or b""
            if f"sha256:{hashlib.sha256(certificate).hexdigest()}" != self._fingerprint.lower():
                connection.close()
                raise InstallError(
                    f"{self.url} presents another certificate than the pinned one: it was renewed "
                    "(`fleet-smi hub join-command` prints a new line), or somebody is in between"
                )
        return connection


def default_prefix() -> str:
    """The folder of the versions: the machine's for root, else the user's own."""
    if os.geteuid() == 0:
        return _SYSTEM_PREFIX
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "fleet-smi-agent")


def require_own_disk(folder: str, mounts: str = "/proc/self/mounts") -> None:
    """Raise `InstallError` if a folder is on a network disk: other machines have it, too."""
    path = os.path.realpath(folder) + "/"
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            fields = [line.split() for line in file]
    except OSError:
        return
    found = [(each[1].rstrip("/") + "/", each[2]) for each in fields if len(each) > 2]
    _, kind = max(
        (len(place), kind) for place, kind in [("/", ""), *found] if path.startswith(place)
    )
    if kind.startswith(_NETWORK_DISKS):
        raise InstallError(
            f"{folder} is on a network disk ({kind}), where agents of several machines would share "
            "one state: install it as root, or let this machine write reports into a shared "
            "folder (`fleet-smi agent --drop DIR`), or be read over ssh"
        )


def install(prefix: str, wheels: Sequence[Wheel], files: HubFiles) -> str:
    """Make the venv of these wheels below `prefix`, unless it is there; return its folder."""
    chosen, missing = choose_wheels(wheels)
    parts = [*(wheel.sha256 for wheel in chosen), *missing]
    digest = hashlib.sha256("".join(parts).encode())
    name = f"{chosen[0].version}-{digest.hexdigest()[:8]}"
    folder = os.path.join(prefix, name)
    complete = os.path.join(folder, "complete")
    if os.path.exists(complete):
        return folder
    require_space(prefix)
    bodies = [_download(wheel, files) for wheel in chosen]
    bodies += [_download_from_index(wheel) for wheel in missing]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _create_venv(folder)
        site = _site_packages(folder)
        for body in bodies:
            _unpack(body, site)
        _write_commands(folder)
        compileall.compile_dir(site, quiet=2, rx=_NOT_COMPILED)
        run([os.path.join(folder, "bin", "fleet-smi"), "--version"])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with open(complete, "w", encoding="utf-8"):
        pass
    return folder


def switch(prefix: str, folder: str) -> str | None:
    """Make a version the current one, atomically; return the folder that was."""
    link = os.path.join(prefix, CURRENT)
    before = os.path.realpath(link) if os.path.islink(link) else None
    temporary = f"{link}.{os.getpid()}"
    os.symlink(os.path.basename(folder), temporary)
    os.replace(temporary, link)
    return before


def remove_others(prefix: str, *kept: str | None) -> None:
    """Remove the versions that are neither in use nor kept to go back to."""
    names = {os.path.basename(folder) for folder in kept if folder}
    for name in os.listdir(prefix):
        if name not in names and os.path.exists(os.path.join(prefix, name, "pyvenv.cfg")):
            shutil.rmtree(os.path.join(prefix, name), ignore_errors=True)


def require_space(prefix: str, *, create: bool = True) -> None:
    """Create the folder; raise `InstallError` if its disk is full or it cannot be written."""
    try:
        if create:
            os.makedirs(prefix, 0o755, exist_ok=True)
        while not os.path.isdir(prefix):
            prefix = os.path.dirname(prefix)
        free = shutil.disk_usage(prefix).free
    except OSError as error:
        raise InstallError(f"{prefix} cannot be made: {error.strerror}") from None
    if free < _NEEDED_BYTES:
        raise InstallError(
            f"no space for {prefix}: {free >> 20} MiB free, {_NEEDED_BYTES >> 20} MiB needed"
        )


def _download(wheel: Wheel, files: HubFiles) -> bytes:
    body = files.fetch(f"/install/wheels/{wheel.name}")
    if hashlib.sha256(body).hexdigest() != wheel.sha256:
        raise InstallError(
            f"{wheel.name} has not the checksum that the script says: the hub was upgraded "
            "meanwhile (take a new line), or somebody is in between"
        )
    return body


def _download_from_index(requirement: str) -> bytes:
    """A wheel from the package index that pip of this machine has, if it has one."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"fleet-smi-{os.getpid()}")  # noqa: S108
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0"]
    command = [*pip, "--timeout", "10", "--only-binary", ":all:", "--dest", folder, requirement]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        (name,) = os.listdir(folder)
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    except (OSError, ValueError, subprocess.SubprocessError):
        raise InstallError(
            f"the hub has no wheel of {requirement} for {describe_python()}, and "
            "no package index answers here: run `fleet-smi hub wheelhouse` on the hub, once, "
            "where it has internet, then this again"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _create_venv(folder: str) -> None:
    try:
        import venv
    except ImportError:
        raise InstallError("this Python has no venv: install python3-venv") from None
    # Without pip: Debian has it in a package of its own, and nothing here needs it.
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)


def _site_packages(folder: str) -> str:
    name = "python{}.{}".format(*sys.version_info[:2])
    return os.path.join(folder, "lib", name, "site-packages")


def _unpack(body: bytes, site: str) -> None:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        # What a wheel installs elsewhere is in a folder of that name; ours have none.
        if any(name.split("/")[0].endswith(".data") for name in archive.namelist()):
            raise InstallError("a wheel of the hub has files for another folder: report this")
        archive.extractall(site)


def _write_commands(folder: str) -> None:
    python = os.path.join(folder, "bin", "python")
    first = f"#!{python}"
    if len(first) > _MAX_SHEBANG or " " in first:
        first = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"
    text = f"{first}\nfrom fleet_smi.__main__ import main\n\nmain()\n"
    for command in COMMANDS:
        path = os.path.join(folder, "bin", command)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)  # noqa: S103  # for every user, as any command


def run(command: Sequence[str], text: str = "") -> str:
    """Run a program of ours to its end and return its output; raise `InstallError`."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InstallError(lines[-1].removeprefix("fleet-smi: "))
    return done.stdout
