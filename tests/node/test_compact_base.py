"""What compact reports build on."""

from collections.abc import Callable

import pytest

from fleet_smi.node.compact_base import CompactBase
from fleet_smi.wire.compact_codec import READABLE_VERSIONS
from fleet_smi.wire.report import Receipt
from tests.builders import gpu, snapshot

RECEIPT = Receipt(hub="hub", kept=None, versions=READABLE_VERSIONS)


@pytest.mark.parametrize("end_compact", [CompactBase.acknowledge_compact, CompactBase.forget])
def test_after_a_full_report_the_next_builds_on_its_latest_sample(
    end_compact: Callable[[CompactBase], None],
) -> None:
    samples = [snapshot(gpu(0), sequence=number, run_id="run") for number in range(5)]
    base = CompactBase()
    base.acknowledge_full(samples[0], RECEIPT)
    compact = base.compact(samples[1])
    assert compact is not None
    assert compact.base == 0
    end_compact(base)
    # With samples 2 and 3, of which none is sent as a compact report.
    base.acknowledge_full(samples[3], RECEIPT)
    compact = base.compact(samples[4])
    assert compact is not None
    assert compact.base == 3
