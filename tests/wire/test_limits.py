"""The limits of a report, and the struct types that carry them."""

from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.wire.limits import (
    FIELD_RANGES,
    MAX_ITEMS,
    MAX_LENGTH_BY_FIELD,
    constrained_fields,
    constrained_type,
)
from fleet_smi.wire.report import Report
from tests.builders import gpu, process
from tests.wire.test_report import everything


def test_every_field_of_a_report_has_a_limit() -> None:
    assert [field.name for field, _ in constrained_fields(Report)] == list(Report.__struct_fields__)
    assert FIELD_RANGES.items() >= RANGES.items()


def test_no_limit_is_of_a_field_that_does_not_exist() -> None:
    shapes: set[type[Struct]] = {Report, Snapshot, Gpu}
    for shape in (Snapshot, Gpu):
        for field, _ in constrained_fields(shape):
            shapes |= _structs(field.type)
    names = {name for shape in shapes for name in shape.__struct_fields__}
    assert names >= {*FIELD_RANGES, *MAX_LENGTH_BY_FIELD, *MAX_ITEMS}


def _structs(kind: object) -> set[type[Struct]]:
    found = {kind} if isinstance(kind, type) and issubclass(kind, Struct) else set()
    return found.union(*(_structs(each) for each in get_args(kind)))


def test_a_decoded_struct_equals_one_that_was_built() -> None:
    made = everything()
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=constrained_type(Snapshot))
    assert read == made and made == read
    assert read.gpus[0] != made.gpus[1] and made.gpus[1] != read.gpus[0]
    assert read != "text"
    assert isinstance(read.gpus[0], Gpu)


@pytest.mark.parametrize("field, value", [("busy_percent", 101.0), ("name", "x" * 129)])
def test_only_decoding_enforces_the_limits(field: str, value: Any) -> None:
    made = replace(gpu(processes=(process(),)), **{field: value})
    assert constrained_type(Process) is constrained_type(Process)
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(msgspec.to_builtins(made), constrained_type(Gpu))
