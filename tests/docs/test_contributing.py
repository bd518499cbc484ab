"""CONTRIBUTING.md: its worked collector runs, and its index leads to files that are there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import PROJECT, code_blocks, code_spans, page, table_rows
from tests.node.file_trees import drm_card, write_tree

PAGE = page("CONTRIBUTING.md")
PACKAGE = PROJECT / "src/fleet_smi"
SAMPLE = """
import json, sys
import msgspec
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler

sampler = Sampler(Reader(spawn_worker), root=sys.argv[1])
print(msgspec.json.encode(sampler.sample()).decode())
sampler.close()
"""


def copy_with_worked_collector(folder: Path) -> None:
    """Copy the package and add the blocks of the page, each to the file that it names."""
    shutil.copytree(PACKAGE, folder / "fleet_smi", ignore=shutil.ignore_patterns("__pycache__"))
    binding, collector, row = code_blocks(PAGE, "python")
    for block in (binding, collector):
        path = block.partition("\n")[0].removeprefix("# src/")
        (folder / path).write_text(block)
    registry = folder / "fleet_smi/node/collectors/__init__.py"
    text = registry.read_text()
    first_row = 'CollectorEntry("host"'
    assert text.count(first_row) == 1
    registry.write_text(text.replace(first_row, f"{row.strip()},\n    {first_row}"))


def test_the_worked_collector_reads_a_machine(tmp_path: Path) -> None:
    copy_with_worked_collector(tmp_path / "package")
    sensors = {"hwmon/hwmon3/temp1_input": "54000\n", "hwmon/hwmon3/power1_input": "31500000\n"}
    card = drm_card("nouveau", pci_id="10DE:1C82", files=sensors)
    root = write_tree(tmp_path / "machine", card)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SAMPLE, root],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "package")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    snapshot = json.loads(done.stdout)
    assert "nouveau" in {run["name"] for run in snapshot["runs"] if run["outcome"] == "ok"}
    (gpu,) = snapshot["gpus"]
    assert (gpu["vendor"], gpu["temperature_celsius"], gpu["power_watts"]) == ("nvidia", 54, 31.5)


def test_every_file_of_the_index_and_the_checklists_is_there() -> None:
    index = [path for row in table_rows(PAGE, "question") for path in code_spans(row[1])]
    assert len(index) > 20
    named = [span for span in code_spans(PAGE) if re.fullmatch(r"[a-z_/]+/[a-z_]+\.(py|sh)", span)]
    mentioned = {path for path in (*index, *named) if not path.endswith("/name.py")}
    missing = [
        path
        for path in mentioned
        if not (PACKAGE / path).exists() and not (PROJECT / path).exists()
    ]
    assert not missing
