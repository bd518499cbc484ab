"""Scrub free text: known names, addresses, paths and ids become pseudonyms.

What tools print may hold anything. Names that are known to be private are replaced as words,
and everything that has the form of an address, a path or an id is replaced as well.
"""

import re

from msgspec import Struct

from fleet_smi.model.programs import DISPLAY_PROGRAMS, SERVICE_PROGRAMS
from fleet_smi.model.redaction.redact import redact
from fleet_smi.wire.capture.pseudonyms import Pseudonyms

MAX_TEXT = 1 << 20
_MAX_NAMES = 4096
_ABSENT = frozenset(
    {"", "0", "n/a", "[n/a]", "none", "unknown", "not found", "not supported", "not available"}
    | {"gpu is lost", "gpu requires reset", "unknown error", "insufficient permissions"}
)
# Users and groups that every machine has.
_PUBLIC_NAMES = frozenset({"root", "nobody", "nogroup", "daemon", "users", "video", "render"})
_PUBLIC_PATHS = (
    *("/dev/", "/proc/", "/sys/", "/usr/bin/", "/usr/sbin/", "/usr/lib", "/usr/share/"),
    *("/bin/", "/sbin/", "/lib", "/opt/rocm", "/run/nvidia-persistenced", "/run/lock"),
)
_PUBLIC_PROGRAMS = (
    DISPLAY_PROGRAMS
    | SERVICE_PROGRAMS
    | {"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-smi", "pt_main_thread"}
    | {"java", "julia", "ollama", "vllm", "torchrun", "jupyter-lab", "ipython"}
)
_PYTHON = re.compile(r"i?python[0-9.]{0,6}", re.ASCII)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*")
_UUID = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}([-_])(?:[0-9a-f]{4}\1){3}[0-9a-f]{12}(?![0-9a-f])", re.I
)
_MAC = re.compile(
    r"(?<![\w:-])[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}(?![\w:-])", re.I
)
_IPV6 = re.compile(
    r"(?<![\w:])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"
    r"|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)(?![\w:])",
    re.I,
)
_IPV4 = re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?!\.?\w)")
_PATH = re.compile(r"(?<![\w.:/])/[^\s\"'<>|,;:()\[\]{}]*")
# With a letter, unless it is very long: decimal numbers are figures.
_HEX = re.compile(
    r"(?<![0-9a-z])(0x)?((?=[0-9]*[a-f])[0-9a-f]{12,}|[0-9a-f]{21,})(?![0-9a-z])", re.I
)
_LOOPBACK = ("127.0.0.1", "0.0.0.0", "::1", "::")  # noqa: S104


class PrivateNames(Struct, frozen=True, kw_only=True):
    """The private names that are known of a machine."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    serials: tuple[str, ...] = ()


class TextScrubber:
    """Replaces what is private in texts, by the same pseudonyms throughout."""

    def __init__(self, names: PrivateNames) -> None:
        self.pseudonyms = Pseudonyms()
        kinds = (
            ("path", names.paths),
            ("host", names.hosts),
            ("user", names.users),
            ("group", names.groups),
            ("serial", names.serials),
        )
        # Of a name that is both, as of a group that is called like its user, the first counts.
        self._kinds: dict[str, str] = {}
        for kind, listed in kinds:
            for name in listed[:_MAX_NAMES]:
                if is_private(name):
                    self._kinds.setdefault(name.lower(), kind)
        # The longest first: a host's full name before its short one.
        words = sorted(self._kinds, key=len, reverse=True)
        joined = "|".join(map(re.escape, words))
        self._words = re.compile(rf"(?<![^\W_])(?:{joined})(?![^\W_])", re.I) if words else None

    def text(self, text: str) -> str:
        """Return a text without what is private in it."""
        text = "\n".join(map(redact, text.split("\n")))
        if self._words is not None:
            text = self._words.sub(lambda found: self._known(found[0]), text)
        replace = self.pseudonyms.replace
        text = _URL.sub(lambda found: replace("url", found[0]), text)
        text = _EMAIL.sub(lambda found: replace("email", found[0]), text)
        text = _UUID.sub(self._uuid, text)
        text = _MAC.sub(lambda found: replace("mac", found[0]), text)
        text = _IPV6.sub(lambda found: self._address("ipv6", found[0]), text)
        text = _IPV4.sub(lambda found: self._address("ipv4", found[0]), text)
        text = _PATH.sub(lambda found: self.path(found[0]), text)
        return _HEX.sub(lambda found: (found[1] or "") + replace("id", found[2]), text)

    def name(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name of that kind; one that every machine has stays."""
        if not is_private(name):
            return name
        return self.pseudonyms.replace(self._kinds.get(name.lower(), kind), name)

    def program(self, name: str) -> str:
        """Return the name of a program alone, without path and arguments; replace unknown ones."""
        # Its arguments may have paths, too.
        base = name.strip().split("\0")[0].split(" -")[0].rpartition("/")[2]
        if base.lower() in _ABSENT or base.startswith("["):
            return base
        is_public = base in _PUBLIC_PROGRAMS or _PYTHON.fullmatch(base) is not None
        if is_public and base.lower() not in self._kinds:
            return base
        return self.pseudonyms.replace("program", base)

    def path(self, path: str) -> str:
        """Return a path of the system as it is, any other as a pseudonym."""
        if path == "/" or path.startswith("/path-") or path.startswith(_PUBLIC_PATHS):
            return path
        return self.pseudonyms.replace("path", path)

    def _known(self, word: str) -> str:
        return self.pseudonyms.replace(self._kinds[word.lower()], word)

    def _uuid(self, found: re.Match[str]) -> str:
        # In names of systemd slices a uid is written with "_".
        plain = found[0].replace("_", "-")
        return self.pseudonyms.replace("uuid", plain).replace("-", found[1])

    def _address(self, kind: str, address: str) -> str:
        if address in _LOOPBACK:
            return address
        return self.pseudonyms.replace(kind, address)


def is_private(name: str) -> bool:
    """Whether a name says something of this machine: not "root", and not "N/A"."""
    lower = name.strip().lower()
    return lower not in _ABSENT and lower not in _PUBLIC_NAMES and lower != "localhost"


def has_uuid(text: str) -> bool:
    """Whether a UUID is in a text, as in "GPU-…"."""
    return _UUID.search(text) is not None
