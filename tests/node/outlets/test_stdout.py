"""The stdout outlet: one report per line."""

import io

from fleet_smi.node.outlets.stdout import StdoutOutlet
from fleet_smi.wire.report import decode_report
from tests.builders import gpu, snapshot


def test_each_snapshot_is_a_line_of_json() -> None:
    stream = io.BytesIO()
    outlet = StdoutOutlet(stream)
    taken = [snapshot(gpu(), sequence=1), snapshot(gpu(name="line\nbreak"), sequence=2)]
    for each in taken:
        outlet.publish(each)
    lines = stream.getvalue().splitlines()
    assert [decode_report(line, json=True).snapshots[0].sequence for line in lines] == [1, 2]
