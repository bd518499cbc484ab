"""Build the simulated driver: `python sim/build.py OUTDIR [--driver 418]`."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY_SOURCES = ("scenario.c", "driver.c", "nvml_system.c", "nvml_device.c", "nvml_process.c")
TOOL_SOURCES = ("nvidia_smi.c", "smi_fields.c", "smi_csv.c", "smi_table.c", "smi_xml.c")
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror")

# Every macro that defines an API function starts with its driver branch and its name.
FUNCTION = re.compile(r"^[A-Z0-9_]+\((\d+), (nvml\w+)[,)]", re.MULTILINE)


class BuildFailed(Exception):
    """The simulated driver could not be built; the message says what to do."""


def find_compiler() -> list[str]:
    """Return the command of a C compiler."""
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise BuildFailed("no C compiler found: install gcc or clang, or `pip install ziglang`")


def exported_functions(branch: int | None = None, without: tuple[str, ...] = ()) -> list[str]:
    """Return the NVML functions of a driver of this branch; `None` means all."""
    found = ["nvmlErrorString"]
    for name in LIBRARY_SOURCES:
        for since, function in FUNCTION.findall((HERE / name).read_text()):
            if branch is None or int(since) <= branch:
                found.append(function)
    return sorted(set(found) - set(without))


def version_script(functions: list[str]) -> str:
    """Return a linker version script that exports only these functions."""
    names = "".join(f"    {name};\n" for name in functions)
    return f"{{\n  global:\n{names}  local: *;\n}};\n"


def is_current(outputs: list[Path]) -> bool:
    """Whether all outputs are newer than all sources."""
    sources = [*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__)]
    newest = max(source.stat().st_mtime_ns for source in sources)
    return all(output.exists() and output.stat().st_mtime_ns > newest for output in outputs)


def build(
    outdir: Path,
    branch: int | None = None,
    without: tuple[str, ...] = (),
    objects: Path | None = None,
) -> None:
    """Build the library and `nvidia-smi` in `outdir`, unless they are up to date.

    `objects` is the folder of the compiled sources: builds of several branches can share it.
    """
    outdir.mkdir(parents=True, exist_ok=True)
    library, tool, exports = (
        outdir / name for name in ("libnvidia-ml.so.1", "nvidia-smi", "exports.map")
    )
    script = version_script(exported_functions(branch, without))
    if is_current([library, tool, exports]) and exports.read_text() == script:
        return
    exports.write_text(script)
    compiler = find_compiler()
    core, rest = (
        _compile(compiler, names, objects or outdir / "objects")
        for names in (LIBRARY_SOURCES, TOOL_SOURCES)
    )
    shared = ["-shared", "-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={exports}"]
    _run_compiler([*compiler, *shared, *core], library)
    _run_compiler([*compiler, *core, *rest], tool)


def _compile(compiler: list[str], names: tuple[str, ...], objects: Path) -> list[str]:
    objects.mkdir(parents=True, exist_ok=True)
    outputs = [objects / f"{name}.o" for name in names]
    if not is_current(outputs):
        for name, output in zip(names, outputs, strict=True):
            _run_compiler([*compiler, *FLAGS, "-c", str(HERE / name)], output)
    return [str(output) for output in outputs]


def _run_compiler(command: list[str], output: Path) -> None:
    # Running programs may have the old file mapped: write a new one, then replace it.
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        fresh = Path(folder) / output.name
        done = subprocess.run(
            [*command, "-pthread", "-o", str(fresh)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildFailed(f"{command[0]} failed:\n{done.stderr}")
        fresh.replace(output)


def main() -> int:
    """Build with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outdir", type=Path)
    parser.add_argument(
        "--driver", type=int, metavar="BRANCH", help="export only what this branch had, e.g. 418"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="FUNCTION", help="leave this one out"
    )
    arguments = parser.parse_args()
    try:
        build(arguments.outdir, arguments.driver, tuple(arguments.without))
    except BuildFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
