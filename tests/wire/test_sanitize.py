"""Properties of decoding and sanitising: any input is harmless, valid input is unchanged."""

import unicodedata
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw, Struct
from msgspec.structs import fields, replace

from fleet_smi.errors import DeliveryError
from fleet_smi.model.safe_text import is_safe_text
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.lenient import LenientDecoder
from fleet_smi.wire.limits import FIELD_RANGES, ID_FIELDS, constrained_type, unwrap_optional
from fleet_smi.wire.report import Report, decode_report, encode_report, encode_snapshot
from fleet_smi.wire.sanitize import sanitize_snapshot
from tests import builders
from tests.builders import NOON
from tests.call_count import count_calls
from tests.wire.test_report import everything

HARMFUL = ("Cc", "Cs", "Zl", "Zp")
UNSEEN = (
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\xad\u2800\u3164\ufe0f"
)
thorough = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

# Anything that both formats can carry, and what is likely to hurt.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(
        ["\x1b[31m", "\u202e", "\u3164", "x" * 5000, "=cmd", "", 2**64 - 1, -1, 1e308]
    )
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=12,
)
CLEAN_TEXT = st.text(st.characters(exclude_categories=["C", "Z"]).filter(is_safe_text), max_size=12)


def all_of(shape: type[Struct]) -> st.SearchStrategy[Any]:
    """Structs with every field within its bounds."""
    made = {field.name: values_of(field.name, field.type) for field in fields(shape)}
    return st.builds(shape, **made)


def values_of(name: str, kind: Any) -> st.SearchStrategy[Any]:
    if unwrap_optional(kind) is not kind:
        return st.none() | values_of(name, unwrap_optional(kind))
    if name in ID_FIELDS:
        return st.from_regex(r"[0-9a-f]{32}|name-[a-z0-9.-]{1,63}", fullmatch=True)
    if kind in (int, float):
        low, high = FIELD_RANGES[name]
        return st.integers(int(low), int(high)) if kind is int else st.floats(low, high)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is tuple:
        return st.lists(values_of(name, get_args(kind)[0]), max_size=2).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(CLEAN_TEXT, CLEAN_TEXT, max_size=2)
    plain = {str: CLEAN_TEXT, bool: st.booleans()}
    return plain[kind] if kind in plain else all_of(kind)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value of plain lists and dictionaries, with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def full(name: str, kind: Any) -> Any:
    """A value of this type with every field set and nothing empty."""
    kind = unwrap_optional(kind)
    if name in FIELD_RANGES:
        return kind(FIELD_RANGES[name][0])
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) is tuple:
        return (full(name, get_args(kind)[0]),)
    if get_origin(kind) is dict:
        return {"key": "value"}
    if kind in (str, bool):
        return kind("x")
    return kind(**{field.name: full(field.name, field.type) for field in fields(kind)})


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in texts(part))


def assert_harmless(report: Report) -> None:
    msgspec.convert(msgspec.to_builtins(report), constrained_type(Report))  # within all bounds
    for text in texts(msgspec.to_builtins(report)):
        assert not any(unicodedata.category(each) in HARMFUL or each in UNSEEN for each in text)
    assert len({snapshot.node_id for snapshot in report.snapshots}) == 1
    for snapshot in report.snapshots:
        parts: list[Any] = [*snapshot.gpus, *(p for gpu in snapshot.gpus for p in gpu.instances)]
        assert len({part.uuid for part in parts}) == len(parts)
        for part in parts:
            used, total = part.memory_used_bytes, part.memory_total_bytes
            assert used is None or total is None or used <= total


def assert_harmless_or_refused(body: bytes, *, json: bool) -> None:
    try:
        report = decode_report(body, json=json)
    except DeliveryError as error:
        assert str(error).isprintable() and len(str(error)) < 400
    else:
        assert_harmless(report)


def test_control_characters_are_removed_from_every_text_field_of_the_model() -> None:
    clean = msgspec.json.encode(full("snapshot", Snapshot))
    found = 0
    for place in range(len(list(places(msgspec.json.decode(clean))))):
        sent = msgspec.json.decode(clean)
        container, key = list(places(sent))[place]
        if container[key] not in ("x", "value") or key in ID_FIELDS:
            continue
        found += 1
        container[key] = "a\x1b[31mb"
        read = decode_report(msgspec.json.encode({"version": 1, "snapshots": [sent]}), json=True)
        assert "a [31mb" in set(texts(msgspec.to_builtins(read))), key
        assert_harmless(read)
    assert found > 30


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_decoded_or_refused(body: bytes, json: bool) -> None:
    assert_harmless_or_refused(body, json=json)


@thorough
@given(ANYTHING, ANYTHING, st.booleans())
def test_any_values_are_decoded_or_refused(snapshot: Any, gpu: Any, json: bool) -> None:
    encode = msgspec.json.encode if json else msgspec.msgpack.encode
    sent = {"node_id": "n", "name": snapshot, "taken_at": 1, "gpus": [gpu], "host": snapshot}
    for each in (snapshot, sent):
        assert_harmless_or_refused(encode({"version": 1, "snapshots": [each]}), json=json)


@thorough
@given(st.data(), st.booleans())
def test_a_valid_report_with_any_value_replaced_is_decoded_or_refused(
    data: st.DataObject, json: bool
) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(everything()))
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(list(places(sent))))
        container[key] = data.draw(ANYTHING)
    encode = msgspec.json.encode if json else msgspec.msgpack.encode
    assert_harmless_or_refused(encode({"version": 1, "snapshots": [sent]}), json=json)


@given(st.data())
def test_a_valid_report_with_any_bytes_changed_is_decoded_or_refused(data: st.DataObject) -> None:
    body = bytearray(encode_report([encode_snapshot(everything())], NOON))
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=6)):
        body[place] = data.draw(st.integers(0, 255))
    assert_harmless_or_refused(bytes(body), json=False)


slow = settings(thorough, max_examples=40)
SNAPSHOTS = all_of(Snapshot).map(lambda made: replace(made, agent_version="1", name="n"))


def poisoned(value: Any) -> Any:
    """The same with one bad field in every struct, so that each is read field by field."""
    if isinstance(value, dict):
        bad = {"hidden": 7} if "pid" in value else {"uuid_is_made": 7} if "uuid" in value else {}
        return {key: poisoned(each) for key, each in value.items()} | bad
    return [poisoned(each) for each in value] if isinstance(value, list | tuple) else value


def without_poison(value: Any) -> Any:
    if isinstance(value, dict):
        cleaned = {key: without_poison(each) for key, each in value.items()}
        cleaned.get("unread", {}).pop("uuid_is_made", None)
        bad = {"hidden": False} if "pid" in value else {}
        return cleaned | bad | ({"uuid_is_made": False} if "uuid" in value else {})
    return [without_poison(each) for each in value] if isinstance(value, list | tuple) else value


@slow
@given(SNAPSHOTS)
def test_strict_and_lenient_decoding_agree(sent: Snapshot) -> None:
    strict = decode_report(encode_report([encode_snapshot(sent)], NOON)).snapshots[0]
    poison = msgspec.msgpack.encode(poisoned(msgspec.to_builtins(sent)) | {"interval_seconds": ""})
    lenient = sanitize_snapshot(LenientDecoder(json=False).decode_snapshot(Raw(poison)))
    expected = replace(strict, interval_seconds=None, runs=lenient.runs)
    assert lenient.runs[1:] == strict.runs
    assert without_poison(msgspec.to_builtins(lenient)) == without_poison(
        msgspec.to_builtins(expected)
    )


@slow
@given(SNAPSHOTS)
def test_a_valid_report_is_decoded_as_it_was_sent(sent: Snapshot) -> None:
    read = decode_report(encode_report([encode_snapshot(sent)], NOON))
    assert_harmless(read)
    again = decode_report(encode_report([encode_snapshot(read.snapshots[0])], NOON))
    assert again.snapshots == read.snapshots
    assert replace(read.snapshots[0], gpus=()) == replace(sent, gpus=())


def test_lines_that_were_searched_for_secrets_are_not_searched_again() -> None:
    processes = (builders.process(1, command="python x.py"),)
    gpus = [builders.gpu(index, processes=processes) for index in range(8)]
    reports = [builders.snapshot(*gpus, sequence=number) for number in (1, 2)]
    sanitize_snapshot(reports[0])

    # Without processes it makes 6 calls; a search makes 30 more.
    assert count_calls(lambda: sanitize_snapshot(reports[1])) <= 40
