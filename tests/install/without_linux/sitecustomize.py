"""Takes away what only Linux has; Python imports this first where its folder is on the path.

What is left is what Python has on macOS: see the availability notes of the standard library.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import errno
import os
import select
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

MISSING: dict[ModuleType, str] = {
    os: (
        "CLONE_* EFD_* GRND_* MFD_* P_PIDFD PIDFD_* RWF_* SCHED_* SPLICE_* TFD_* XATTR_* "
        "O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE POSIX_FADV_* "
        "copy_file_range eventfd* fdatasync getrandom getresgid getresuid getxattr listxattr "
        "memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate preadv pwritev "
        "removexattr sched_* setns setresgid setresuid setxattr splice timerfd_* unshare waitid"
    ),
    select: "epoll EPOLL*",
    time: "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    _signal: "SIGPOLL SIGPWR SIGRTM* SIGSTKFLT sigtimedwait sigwaitinfo pidfd_send_signal",
    _socket: (
        "AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_TIPC AF_VSOCK SOCK_CLOEXEC SOCK_NONBLOCK "
        "SO_BINDTODEVICE SO_DOMAIN SO_MARK SO_PASSCRED SO_PEERCRED SO_PEERSEC SO_PRIORITY "
        "SO_PROTOCOL TCP_CORK TCP_DEFER_ACCEPT TCP_INFO TCP_KEEPIDLE TCP_QUICKACK TCP_USER_TIMEOUT"
    ),
}
"""Modules, and what they have on Linux alone; a name that ends in a star stands for several."""
FOLDERS = ("/proc", "/sys", "/run", "/dev/shm", "/etc/machine-id", "/var/lib/dbus")
_LIBRARIES = (".so", ".so.1", ".so.6")


def _remove(module: ModuleType, patterns: str) -> None:
    for pattern in patterns.split():
        prefix, is_many, _ = pattern.partition("*")
        for name in list(vars(module)):
            if name == pattern or (is_many and name.startswith(prefix)):
                delattr(module, name)


def _is_missing(path: Any) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(path)
    return any(text == folder or text.startswith(f"{folder}/") for folder in FOLDERS)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and _is_missing(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
    if event == "ctypes.dlopen" and str(arguments[0]).endswith(_LIBRARIES):
        raise OSError(f"{arguments[0]}: no such file")


def _hide_folders(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any, *arguments: Any, **options: Any) -> Any:
        if _is_missing(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *arguments, **options)

    return call


for _module, _names in MISSING.items():
    _remove(_module, _names)
for _name in ("stat", "lstat", "readlink"):
    setattr(os, _name, _hide_folders(getattr(os, _name)))
sys.platform = "darwin"
sys.addaudithook(_audit)
