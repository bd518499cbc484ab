"""The entry point: an interrupt ends the program with 130 whenever it comes."""

import os
import subprocess
import sys
from pathlib import Path

_RUNS_ON = """\
import signal, sys
sys.argv = ["fleet-smi", "--version"]
import fleet_smi.__main__ as program
import fleet_smi.cli.main

def run(_arguments):
    import swallows
    while True:
        signal.pause()

fleet_smi.cli.main.main = run
program.main()
"""
_SWALLOWS = """\
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    pass
"""


def test_an_interrupt_that_a_module_would_swallow_while_it_is_imported_ends_the_program(
    tmp_path: Path,
) -> None:
    # As extension modules do, which clear any exception of an import that they can do without.
    (tmp_path / "swallows.py").write_text(_SWALLOWS)
    done = subprocess.run(
        [sys.executable, "-c", _RUNS_ON],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
