"""`make dist`: the files of a release in `dist/`: source, wheel, bill of materials, checksums."""

import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet_smi import __version__
from release.sbom import make_sbom

PROJECT = Path(__file__).parents[1]
CHECKSUMS = "SHA256SUMS"


def make_dist(folder: Path) -> None:
    """Fill a folder, which is emptied first.

    The wheel is built from the source distribution, so that what is published builds what is
    published.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = build("sdist", PROJECT, folder)
    with TemporaryDirectory() as unpacked:
        with tarfile.open(source) as archive:
            # Debian 12 has Python 3.11.2, whose `tarfile` knows no filters yet; ours is trusted.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(unpacked)
        build("wheel", Path(unpacked) / source.name.removesuffix(".tar.gz"), folder)
    (folder / f"fleet_smi-{__version__}.cdx.json").write_text(make_sbom(__version__))
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in _files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines))


def build(target: str, root: Path, folder: Path) -> Path:
    """Build the wheel or the source distribution of a tree; return the file."""
    before = set(_files(folder))
    hatchling = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(hatchling, cwd=root, check=True, stdout=subprocess.DEVNULL)
    (built,) = set(_files(folder)) - before
    return built


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def main() -> None:
    """Make the files of this version."""
    folder = PROJECT / "dist"
    make_dist(folder)
    for path in _files(folder):
        print(f"{path.stat().st_size / 1000:9.1f} kB  {path.relative_to(PROJECT)}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
