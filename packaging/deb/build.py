"""Builds the Debian packages `fleet-smi`, `fleet-smi-top` and `fleet-smi-hub` from a wheel.

    python packaging/deb/build.py dist/fleet_smi-0.1.0-py3-none-any.whl

They have the tested versions of their Python dependencies in them, in a private environment that
runs on Debian's own `python3`. Compiled modules of several Python versions lie side by side there,
so one package serves several releases of Debian and Ubuntu. It takes `uv` and `dpkg-deb`.
"""

import argparse
import filecmp
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from email.utils import formatdate
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fleet_smi.cli.systemd_units import STATE_DIR, ServiceUnit, render_unit, unit_name

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parents[1]
HOME = "usr/lib/fleet-smi"
SITE = f"{HOME}/lib/python3/site-packages"
PAGE = "fleet_smi/server/page"
MAINTAINER = "The fleet-smi authors <fleet-smi@example.org>"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# The C library that wheels may need at most: that of Debian 10 and Ubuntu 20.04.
PLATFORM = "manylinux_2_28"
# What developers of these libraries need, and programs that are not for /usr/bin.
UNNEEDED = ("tests", "*.pyi", "*.pxd", "*.pyx", "*.c", "*.h", "*.a", "__pycache__")
UNNEEDED_AT_TOP = ("bin", "example.py", ".lock")
# They differ between versions of Python, and say only how the library was built.
BUILD_NOTES = ("numpy/__config__.py",)
# Its files, and the versions of Python that it is for: a hub makes wheels for its nodes of them.
_LISTS = ("RECORD", "WHEEL")
_RECORDS = ("REQUESTED", "direct_url.json", "uv_cache.json", "INSTALLER")


class Package(NamedTuple):
    """One package, which adds to the packages before it."""

    name: str
    extras: tuple[str, ...]
    pythons: tuple[str, ...]
    depends: tuple[str, ...]
    recommends: str
    summary: str
    description: str
    role: str = ""
    """The service that it has; none for a package of commands alone."""

    @property
    def state(self) -> str:
        """The folder with the state of the service."""
        return f"{STATE_DIR}/{self.role}"


AGENT = Package(
    name="fleet-smi",
    extras=(),
    pythons=("3.10", "3.11", "3.12", "3.13", "3.14"),
    depends=("adduser", "libc6 (>= 2.28)"),
    recommends="openssh-client",
    summary="GPU monitor: which GPUs are free, who has the rest, do they use them",
    description="""\
 The commands for one machine or a whole fleet, and the agent that reports
 this machine to a hub. The service fleet-smi-agent starts when the machine
 joins a hub with `fleet-smi service install agent`.""",
    role="agent",
)
TOP = Package(
    name="fleet-smi-top",
    extras=("top",),
    pythons=AGENT.pythons[1:],
    depends=(),
    recommends="",
    summary="live terminal of fleet-smi",
    description="""\
 The command `fleet-smi top`: nodes, GPUs, processes, people and history.""",
)
HUB = Package(
    name="fleet-smi-hub",
    extras=("all",),
    pythons=AGENT.pythons[1:],
    depends=("adduser", "libstdc++6", "libgcc-s1"),
    recommends="openssh-client",
    summary="hub of fleet-smi: collects the GPUs of all nodes, with a web page",
    description="""\
 Receives the reports of all nodes, keeps their history, and answers
 commands, browsers and Prometheus. It listens on this machine only until
 /etc/fleet-smi/fleet-smi.toml says otherwise.""",
    role="hub",
)
PACKAGES = (AGENT, TOP, HUB)


def main() -> None:
    """Build the packages, and print their paths."""
    options = _parser().parse_args()
    version = f"{wheel_version(options.wheel)}-{options.revision}"
    options.out.mkdir(parents=True, exist_ok=True)
    packages = [
        package._replace(pythons=tuple(p for p in package.pythons if p in options.pythons))
        for package in PACKAGES
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for package in packages:
            for python in package.pythons:
                install(options.wheel, package.extras, python, options.arch, folder / package.name)
        # The page is for a hub alone.
        shutil.rmtree(folder / AGENT.name / PAGE, ignore_errors=True)
        shutil.rmtree(folder / TOP.name / PAGE, ignore_errors=True)
        for package in packages:
            trim_lists(folder / package.name)
        for upper, lower in pairwise(reversed(packages)):
            keep_new(folder / upper.name, folder / lower.name)
        for package in packages:
            root = folder / f"{package.name}-root"
            stage(package, root, folder / package.name, version, options.arch)
            print(build(package, root, version, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("wheel", type=Path, help="the wheel of fleet-smi")
    add("--out", type=Path, default=PROJECT / "dist", help="folder for the packages (dist)")
    add("--arch", choices=MACHINES, default="amd64", help="architecture (amd64)")
    add("--pythons", type=lambda text: text.split(","), default=AGENT.pythons,
        metavar="3.X,…", help="versions of python3 that they run on (3.10 to 3.14)")  # fmt: skip
    add("--revision", default="1", help="revision of the packages (1)")
    add("--compression", default="xz", help="as of dpkg-deb -Z (xz)")
    return parser


def wheel_version(wheel: Path) -> str:
    """The version of a wheel as Debian sorts it: `1.0~rc1` before `1.0`."""
    version = wheel.name.split("-")[1]
    return re.sub(r"\.?(a|b|rc|dev)(\d+)", r"~\1\2", version)


def install(wheel: Path, extras: tuple[str, ...], python: str, arch: str, target: Path) -> None:
    """Add a wheel and its dependencies, for one Python version, to a folder of modules."""
    locks = (PROJECT / "requirements/lock" / f"{name}.txt" for name in ("light", "all"))
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        subprocess.run(
            [
                *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", name),
                *("--python-version", python, "--only-binary=:all:", "--no-python-downloads"),
                *("--python-platform", f"{MACHINES[arch]}-{PLATFORM}", "--link-mode=copy"),
                *(f"--constraints={lock}" for lock in locks),
                f"fleet-smi[{','.join(extras)}] @ {wheel.absolute().as_uri()}",
            ],
            check=True,
        )
        merge(Path(name), target)


def merge(source: Path, target: Path) -> None:
    """Move modules to those that are there; compiled ones have the Python version in their name."""
    for path in list(source.rglob("*")):
        name = path.relative_to(source)
        place = target / name
        if path.is_dir() or _is_unneeded(name):
            continue
        if place.exists() and name.name in _LISTS and name.parent.suffix == ".dist-info":
            lines = dict.fromkeys(f"{place.read_text()}\n{path.read_text()}".splitlines())
            place.write_text("".join(f"{line}\n" for line in lines if line))
            continue
        # Of a pure package the files are the same for all versions of Python.
        if place.exists() and not filecmp.cmp(path, place, shallow=False):
            if ".dist-info/" not in str(name) and str(name) not in BUILD_NOTES:
                raise SystemExit(f"{name} differs between versions of Python")
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)


def _is_unneeded(name: Path) -> bool:
    # What pip and uv note about this build: its folders, and the time.
    is_record = name.parent.suffix == ".dist-info" and name.name in _RECORDS
    is_odd = any(fnmatch(part, pattern) for part in name.parts for pattern in UNNEEDED)
    return is_record or is_odd or name.parts[0] in UNNEEDED_AT_TOP


def trim_lists(modules: Path) -> None:
    """Remove from the lists of files what was left out."""
    for record in modules.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines()
        kept = [line for line in lines if (modules / line.rsplit(",", 2)[0]).is_file()]
        record.write_text("".join(f"{line}\n" for line in kept))


def keep_new(upper: Path, lower: Path) -> None:
    """Leave in one folder of modules what the other has not."""
    for path in lower.rglob("*"):
        if path.is_file():
            (upper / path.relative_to(lower)).unlink(missing_ok=True)


def stage(package: Package, root: Path, modules: Path, version: str, arch: str) -> None:
    """Lay out the files of a package below `root`."""
    (root / SITE).parent.mkdir(parents=True)
    modules.rename(root / SITE)
    if package.role:
        unit = ServiceUnit(
            role=package.role,
            command=("/usr/bin/fleet-smi", package.role),
            user=package.name,
            env_file=f"/etc/fleet-smi/{package.role}.env",
            state_dir=package.state,
            written_by=f"the package {package.name}",
        )
        _write(root / "usr/lib/systemd/system" / unit_name(package.role), render_unit(unit))
    documents = root / "usr/share/doc" / package.name
    _write(documents / "copyright", (FOLDER / "copyright").read_text())
    changes = (
        f"{package.name} ({version}) unstable; urgency=medium\n\n"
        "  * See CHANGELOG.md of the project.\n\n"
        f" -- {MAINTAINER}  {formatdate(_epoch(), localtime=False)}\n"
    )
    with gzip.GzipFile(documents / "changelog.Debian.gz", "wb", mtime=_epoch()) as file:
        file.write(changes.encode())
    if package.name == AGENT.name:
        _stage_commands(root)
    _stage_control(package, root, version, arch)


def _stage_commands(root: Path) -> None:
    """The environment, its commands, their completion, and the settings file."""
    home = root / HOME
    _write(home / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    # By this file `fleet_smi.extras` knows that apt installs what is missing.
    _write(home / "debian", "")
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to("/usr/bin/python3")
    for python in AGENT.pythons:
        (home / "lib" / f"python{python}").symlink_to("python3")
    # Isolated: a PYTHONPATH of the user's must not change what the command imports.
    start = f"#!/{HOME}/bin/python -I\nfrom fleet_smi.__main__ import main\n\nmain()\n"
    _write(home / "bin/fleet-smi", start, 0o755)
    (root / "usr/bin").mkdir()
    for name in ("fleet-smi", "fsmi"):
        (root / "usr/bin" / name).symlink_to("../lib/fleet-smi/bin/fleet-smi")
    for shell, path in (
        ("bash", "bash-completion/completions/fleet-smi"),
        ("zsh", "zsh/vendor-completions/_fleet-smi"),
        ("fish", "fish/vendor_completions.d/fleet-smi.fish"),
    ):
        command = [sys.executable, "-m", "fleet_smi", "completion", shell]
        _write(root / "usr/share" / path, subprocess.check_output(command, text=True))
    _write(root / "etc/fleet-smi/fleet-smi.toml", (FOLDER / "fleet-smi.toml").read_text())


def _stage_control(package: Package, root: Path, version: str, arch: str) -> None:
    control = root / "DEBIAN"
    lowest, highest = (tuple(map(int, p.split("."))) for p in _ends(package.pythons))
    depends = [
        f"python3 (>= {lowest[0]}.{lowest[1]}~)",
        f"python3 (<< {highest[0]}.{highest[1] + 1}~)",
        *package.depends,
    ]
    names = [each.name for each in PACKAGES]
    if package.name != AGENT.name:
        depends.append(f"{names[names.index(package.name) - 1]} (= {version})")
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
    fields = {
        "Package": package.name,
        "Version": version,
        "Architecture": arch,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size // 1024),
        "Depends": ", ".join(depends),
        "Recommends": package.recommends,
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{package.summary}\n{package.description}",
    }
    lines = (f"{key}: {text}\n" for key, text in fields.items() if text)
    _write(control / "control", "".join(lines))
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    paths = [str(path.relative_to(root)) for path in files if control not in path.parents]
    sums = [f"{hashlib.md5((root / path).read_bytes()).hexdigest()}  {path}\n" for path in paths]
    _write(control / "md5sums", "".join(sums))
    conffiles = [f"/{path}\n" for path in paths if path.startswith("etc/")]
    if conffiles:
        _write(control / "conffiles", "".join(conffiles))
    # Another Python version: its modules have to be compiled again.
    _write(control / "triggers", "interest-noawait /usr/bin/python3\n")
    for script in ("postinst", "prerm", "postrm"):
        _write(control / script, _script(script, package), 0o755)


def _ends(pythons: tuple[str, ...]) -> tuple[str, str]:
    ordered = sorted(pythons, key=lambda python: tuple(map(int, python.split("."))))
    return ordered[0], ordered[-1]


def _script(name: str, package: Package) -> str:
    """A maintainer script, for one package."""
    text = (FOLDER / name).read_text()
    values = {
        "PACKAGE": package.name,
        "ROLE": package.role,
        "UNIT": unit_name(package.role),
        "USER": package.name,
        "STATE": package.state,
        "PYTHON": f"/{HOME}/bin/python",
    }
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)


def build(package: Package, root: Path, version: str, options: argparse.Namespace) -> Path:
    """Make the archive of the staged files; return its path."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            is_program = path.is_dir() or path.parent.name == "bin" or os.access(path, os.X_OK)
            path.chmod(0o755 if is_program and path.suffix != ".so" else 0o644)
    archive = options.out / f"{package.name}_{version}_{options.arch}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", f"-Z{options.compression}", "--build", root, archive],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(_epoch())},
    )
    return Path(archive)


def _epoch() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH", "1580601600"))  # as hatchling, for wheels


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


if __name__ == "__main__":
    main()
