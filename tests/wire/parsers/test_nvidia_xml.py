"""Damaged, hostile and multiple XML documents of `nvidia-smi -q -x`."""

import contextlib
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.wire.parsers.nvidia_smi import classify_failure, failed_devices, parse_xml
from tests.captures import capture_files, capture_text
from tests.wire.parsers.nvidia_samples import GPU_XML, MIB, MIG_XML, UUID, document, read_gpu


def test_devices_are_numbered_in_the_order_of_the_document() -> None:
    gpus = parse_xml(document("<uuid>GPU-b</uuid>", "<uuid>GPU-a</uuid>")).gpus
    assert [(gpu.index, gpu.uuid) for gpu in gpus] == [(0, "GPU-b"), (1, "GPU-a")]


def test_devices_with_one_masked_uuid_stay_two_devices() -> None:
    gpus = parse_xml(document("<uuid>GPU-x</uuid>", "<uuid>GPU-x</uuid>")).gpus
    assert [gpu.uuid for gpu in gpus] == ["GPU-x", "GPU-x/00000000:01:00.0"]


def test_a_device_without_a_uuid_is_identified_by_its_slot() -> None:
    assert read_gpu("<uuid>N/A</uuid>").uuid == "GPU-at-00000000:00:00.0"


def test_the_last_whole_document_of_a_stream_is_parsed() -> None:
    stream = (
        document("<uuid>GPU-first</uuid>")
        + document("<uuid>GPU-second</uuid>")
        + document("<uuid>GPU-third</uuid>")[:200]
    )
    assert [gpu.uuid for gpu in parse_xml(stream).gpus] == ["GPU-second"]


def test_text_before_and_after_the_document_does_no_harm() -> None:
    text = "\nMon: a banner\n" + document(GPU_XML) + "WARNING: infoROM is corrupted\n"
    assert parse_xml(text).gpus == parse_xml(document(GPU_XML)).gpus


def test_a_name_of_raw_bytes_and_control_characters_does_not_hide_the_gpu() -> None:
    broken = GPU_XML.replace("/opt/bin/python3", "\x1b[31m\x00\ufffda<b&\ud800")
    (gpu,) = parse_xml(document(broken)).gpus
    assert gpu.memory_used_bytes == 1000 * MIB
    assert gpu.fault is None
    assert (gpu.processes or ())[0].command == "[31m\ufffda<b& -m train, --lr=1"


def test_a_damaged_device_does_not_hide_the_others() -> None:
    damaged = "<uuid>GPU-d</uuid><fan_speed>5 %</fan_speed><clocks><sm_clock>1</clocks>"
    first, second, third = parse_xml(
        document("<uuid>GPU-a</uuid>", damaged, "<uuid>GPU-c</uuid>")
    ).gpus
    assert (first.uuid, second.uuid, third.uuid) == ("GPU-a", "GPU-d", "GPU-c")
    assert (second.fan_percent, second.sm_clock_mhz) == (5, None)
    assert [gpu.fault and gpu.fault.kind for gpu in (first, second, third)] == [
        None,
        "unreadable",
        None,
    ]


def test_only_whole_values_of_truncated_output_are_used() -> None:
    text = document("<uuid>GPU-a</uuid><fan_speed>55 %</fan_speed>")
    (gpu,) = parse_xml(text[: text.index("5 %")]).gpus
    assert (gpu.uuid, gpu.fan_percent) == ("GPU-a", None)
    assert gpu.fault is not None
    assert gpu.fault.kind == "unreadable"


def test_a_truncated_process_list_does_not_look_empty() -> None:
    text = document("<uuid>GPU-a</uuid><processes>\n<process_info>")
    assert parse_xml(text.partition("<process_info>")[0]).gpus[0].processes is None


BOMB = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
FILE = '<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
ROOT = "<nvidia_smi_log>{}</nvidia_smi_log>"


@pytest.mark.parametrize(
    "text, message",
    [
        (BOMB + ROOT.format('<gpu id="0"><uuid>&b;</uuid></gpu>'), "entities"),
        (FILE + ROOT.format('<gpu id="0"><uuid>&x;</uuid></gpu>'), "entities"),
        (ROOT.format(" " * (16 * MIB)), "printed more than 16 MiB"),
        (ROOT.format("<driver_version>&undefined;</driver_version>"), "before the first GPU"),
        (ROOT.format("<attached_gpus>4</attached_gpus>"), "lists none"),
        (ROOT.format('<gpu id="0"></gpu>' * 1025), "more than 1024 GPUs"),
    ],
    ids=["bomb", "file", "size", "undefined", "hollow", "many"],
)
def test_a_hostile_or_hollow_document_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReadFailed, match=message):
        parse_xml(text)


def test_a_dtd_inside_the_document_is_ignored() -> None:
    text = document(GPU_XML).replace(
        'SYSTEM "nvsmi_device_v13.dtd"', "[<!ELEMENT nvidia_smi_log (timestamp)>]"
    )
    assert parse_xml(text).gpus[0].uuid == UUID


def test_deeply_nested_elements_do_no_harm() -> None:
    text = document("<uuid>GPU-a</uuid>" + "<a>" * 100_000 + "</a>" * 100_000)
    assert parse_xml(text).gpus[0].uuid == "GPU-a"


@pytest.mark.parametrize(
    "piece", ["<process_name>", "<supported_clocks>", "<gpu id='", "\n", "<a ", "&"]
)
def test_endlessly_repeated_text_is_refused_quickly(piece: str) -> None:
    text = f"<nvidia_smi_log>{piece * 200_000}"
    with pytest.raises(ReadFailed):
        parse_xml(text)
    assert classify_failure(piece * 200_000) is None


def test_no_gpu_attached_is_an_empty_reading() -> None:
    assert parse_xml(document()).gpus == ()


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(CollectError):
        parse_xml(text, text)
    assert classify_failure(text, 1) is not None
    assert isinstance(failed_devices(text), dict)


FRAGMENTS = re.split(r"(?<=>)", document(GPU_XML, MIG_XML))


@given(
    st.lists(
        st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8), st.sampled_from("<>&;\x00\n")),
        max_size=40,
    ),
    st.booleans(),
)
def test_a_document_of_random_pieces_is_parsed_or_refused(pieces: list[str], rooted: bool) -> None:
    text = "".join(pieces)
    try:
        gpus = parse_xml(f'<nvidia_smi_log><gpu id="x">{text}' if rooted else text).gpus
    except CollectError:
        return
    assert all(gpu.vendor == "nvidia" for gpu in gpus)


@cache
def whole_documents() -> list[str]:
    paths = [path for path in capture_files("nvidia/xml") if path.stat().st_size < 30_000]
    return [document(GPU_XML, MIG_XML), *map(capture_text, paths)]


@given(st.data())
def test_a_mutated_document_is_parsed_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(whole_documents()))
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 200))
    text = text[:at] + data.draw(st.text(max_size=5)) + text[at + cut :]
    try:
        gpus = parse_xml(text).gpus
    except CollectError:
        return
    for gpu in gpus:
        assert gpu.busy_percent is None or 0 <= gpu.busy_percent <= 100
        assert gpu.memory_used_bytes is None or gpu.memory_used_bytes >= 0
