"""A machine of its own under a real systemd: namespaces over an overlay of a machine's files.

The files are those of this machine, with fleet-smi in /opt, or those of another root. Nothing of
it reaches this machine: it has its own mounts, processes, network, host name, control group,
`/etc`, `/run`, `/tmp` and `/var`, all in memory, and ends with its first process.
"""

import contextlib
import secrets
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.machines import require_program, require_root

_SOURCES = Path(__file__).parents[1] / "src"
_CGROUPS = Path("/sys/fs/cgroup")
_BOOT_AND_RUN_SECONDS = 300
_UNIT = """\
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/shared/script
StandardOutput=file:/opt/shared/log
StandardError=inherit
TimeoutStartSec=240
ExecStopPost=/bin/systemctl poweroff --force --force
"""
_BOOT = """\
set -e
install_nothing() { :; }
install_sources() {
    mkdir -p opt/src opt/site
    mount --bind "$SOURCES" opt/src
    mount --bind "$SITE" opt/site
    # Its users must reach the interpreter, wherever this machine has it.
    folder="$BASE"
    while [ "$folder" != / ]; do chmod o+x ".$folder"; folder=$(dirname "$folder"); done
    chroot . "$PYTHON" -m venv --without-pip /opt/fleet-smi
    site=$(echo opt/fleet-smi/lib/python*/site-packages)
    printf '/opt/src\\n/opt/site\\n' > "$site/fleet-smi.pth"
}
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$ROOT,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount --rbind /dev dev
mkdir -p opt/shared
mount --bind "$SHARED" opt/shared
"install_$INSTALL"
mount -t tmpfs -o mode=1777 tmpfs tmp
rm -rf etc/machine-id etc/fleet-smi etc/systemd/system/*.wants var/lib/fleet-smi
echo 0123456789abcdef0123456789abcdef > etc/machine-id
mkdir -p etc/systemd/system/multi-user.target.wants
cp opt/shared/unit etc/systemd/system/script.service
ln -s /etc/systemd/system/script.service etc/systemd/system/multi-user.target.wants/
ln -sf /lib/systemd/system/multi-user.target etc/systemd/system/default.target
touch opt/shared/prepared
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . \
    /lib/systemd/systemd --system --show-status=false
"""
_PRELUDE = """\
touch /opt/shared/booted
ip link set lo up
fleet_smi() { /opt/fleet-smi/bin/python -m fleet_smi "$@"; }
wait_for() { for _ in $(seq 120); do "$@" && return; sleep 0.5; done; echo "gave up: $*"; }
said() { tee "/opt/shared/$1" 2>&1; }
"""


def run_on_systemd_machine(folder: Path, script: str, root: Path | None = None) -> dict[str, str]:
    """Boot the machine, run a script of bash as root, and return what it `said`, by name.

    Its files are those of `root`, where fleet-smi is not installed, or else of this machine. Skip
    the test where such a machine cannot be booted.
    """
    require_root("mount and boot a machine of its own")
    for program in ("unshare", "systemctl", "dbus-daemon", "ip", "curl"):
        require_program(program)
    (folder / "unit").write_text(_UNIT)
    (folder / "boot").write_text(_BOOT)
    (folder / "script").write_text(_PRELUDE + script)
    group = f"fleet-smi-test-{secrets.token_hex(4)}"
    hierarchies = [path for path in (_CGROUPS / "systemd", _CGROUPS / "unified") if path.is_dir()]
    groups = [hierarchy / group for hierarchy in hierarchies or [_CGROUPS]]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "ROOT": str(root or "/"),
        "INSTALL": "sources" if root is None else "nothing",
        "SHARED": str(folder),
        "SOURCES": str(_SOURCES),
        "SITE": sysconfig.get_path("purelib"),
        "BASE": sys.base_prefix,
        "PYTHON": sys.executable,
    }
    # In its own group before its namespaces are made: those see that group as their root.
    enter = "; ".join(f"mkdir {each} && echo $$ > {each}/cgroup.procs" for each in groups)
    namespaces = (
        "--mount --propagation private --pid --fork --cgroup --uts --ipc --net --kill-child"
    )
    try:
        done = subprocess.run(
            ["bash", "-c", f"{enter}; exec unshare {namespaces} bash {folder}/boot"],
            env=environment, capture_output=True, text=True,
            timeout=_BOOT_AND_RUN_SECONDS, check=False,
        )  # fmt: skip
    finally:
        for each in groups:
            _remove_cgroup(each)
    if not (folder / "booted").exists():
        pytest.skip(f"systemd cannot be booted in namespaces here: {done.stderr[-300:]}")
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def _remove_cgroup(group: Path) -> None:
    children = [path for path in group.iterdir() if path.is_dir()] if group.is_dir() else []
    for child in children:
        _remove_cgroup(child)
    with contextlib.suppress(OSError):
        group.rmdir()
