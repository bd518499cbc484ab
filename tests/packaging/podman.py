"""A podman with its own storage, and containers in a network of their own."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.machines import require_program, require_root

# Rootless machines inside others may not raise limits, which podman tries by default.
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


class Podman:
    """Containers and images of one test run; `pod` is their network, which has loopback alone.

    The base image is in `images`, which test runs share.
    """

    pod = "fleet-smi-test"

    def __init__(self, images: Path, folder: Path) -> None:
        require_root("run containers with a network of their own")
        require_program("podman")
        images.mkdir(parents=True, exist_ok=True)
        self._images = images
        settings = folder / "containers.conf"
        settings.write_text(_SETTINGS)
        self._environment = {**os.environ, "CONTAINERS_CONF": str(settings)}
        self._storage = folder / "storage"
        # podman takes no long path for it.
        self._sockets = tempfile.mkdtemp(dir="/run", prefix="fleet-smi-")
        # crun refuses the mix of both versions of control groups that some machines have.
        runtime = ("--runtime", "runc") if shutil.which("runc") else ()
        shared = ("podman", *runtime, "--runroot", self._sockets, "--storage-driver", "overlay")
        self._importing = (*shared, "--root", str(images))
        self.command = (
            *(*shared, "--root", str(self._storage)),
            *("--storage-opt", f"overlay.imagestore={images}"),
        )

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run a command of podman; return what it printed."""
        done = self.attempt(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-500:]} {done.stderr[-2000:]}"
        return done.stdout

    def attempt(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of podman that may fail."""
        return subprocess.run(
            [*self.command, *arguments], env=self._environment, input=stdin,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    def inspect(self, name: str) -> dict[str, Any]:
        """What podman knows of a container or image."""
        (found,) = json.loads(self.run("inspect", name))
        return dict(found)

    def import_root(self, root: Path, image: str) -> None:
        """Make an image of a root folder in the shared store, unless it is there."""
        complete = self._images / "complete"
        with (self._images / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if complete.exists():
                return
            with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as tar:
                done = subprocess.run(
                    [*self._importing, "import", "-", image],
                    env=self._environment, stdin=tar.stdout, capture_output=True, check=False,
                )  # fmt: skip
            assert done.returncode == 0, done.stderr
            _unmount(self._images / "overlay")
            complete.touch()

    def close(self) -> None:
        """Remove all containers and images but the shared ones."""
        self.attempt("pod", "rm", "--force", "--time", "0", self.pod)
        self.attempt("rm", "--force", "--all", "--time", "0")
        for mounted in (self._storage / "overlay", Path(self._sockets)):
            _unmount(mounted)
        shutil.rmtree(self._storage, ignore_errors=True)
        shutil.rmtree(self._sockets, ignore_errors=True)


def _unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)
