"""The filter language: what each word matches, and the messages for invalid ones."""

import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet_smi.errors import UsageError
from fleet_smi.model.card_size import device_gigabytes
from fleet_smi.model.filter import FILTER_KEYS, MAX_FILTER_LENGTH, Filter, parse_filter
from fleet_smi.model.filter_keys import FIGURE_GETTERS, TEXT_GETTERS
from fleet_smi.model.fleet import STATES
from tests.model.filter_table import gpu_from_row, load_table

TABLE = load_table()
GPUS = {row["id"]: gpu_from_row(row) for row in TABLE["gpus"]}
WORDS = st.sampled_from([case["text"] for case in TABLE["cases"] if case["text"].strip()])


def matching(wanted: Filter) -> set[str]:
    return {name for name, (node, gpu) in GPUS.items() if wanted.matches(node, gpu)}


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["text"])
def test_a_filter_is_parsed_to_these_terms_and_matches_these_gpus(case: Any) -> None:
    found = parse_filter(case["text"])
    assert found == msgspec.convert({"terms": case["terms"]}, Filter)
    assert matching(found) == set(case["matches"])


def test_the_table_has_the_nominal_sizes_that_the_hub_sends() -> None:
    sent = {name: device_gigabytes(gpu) for name, (_, gpu) in GPUS.items()}
    assert sent == {row["id"]: row["nominal_gigabytes"] for row in TABLE["gpus"]}


@pytest.mark.parametrize("case", TABLE["suggested"], ids=lambda case: case["text"])
def test_suggestions_of_the_page_are_parsed_the_same_here(case: Any) -> None:
    assert parse_filter(case["text"]) == msgspec.convert({"terms": case["terms"]}, Filter)


@pytest.mark.parametrize("case", TABLE["refused"], ids=lambda case: case["text"])
def test_an_invalid_word_is_refused_with_the_likely_spelling(case: Any) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_filter(case["text"])
    assert str(refusal.value) == case["words"]


def test_every_key_is_in_the_table() -> None:
    used = {term["key"] for case in TABLE["cases"] for term in case["terms"]}
    assert used == {*TEXT_GETTERS, *FIGURE_GETTERS}


@given(st.text(max_size=60) | st.text(alphabet='ab:,<>=-*" \t', max_size=30))
@example("a" * (MAX_FILTER_LENGTH + 1))
def test_any_text_is_parsed_or_refused_with_a_message(text: str) -> None:
    try:
        found = parse_filter(text)
    except UsageError as refusal:
        assert str(refusal)
    else:
        matching(found)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Filter) == found


@given(WORDS, WORDS)
def test_all_words_must_match(one: str, other: str) -> None:
    both = matching(parse_filter(f"{one}  {other}"))
    each = matching(parse_filter(one)) & matching(parse_filter(other))
    # A GPU with MIG instances may match the words only in different instances.
    assert each - {"sliced"} <= both <= each


@given(WORDS.filter(lambda text: not text.startswith("-") and len(shlex.split(text)) == 1))
def test_every_gpu_matches_either_a_word_or_its_negation(word: str) -> None:
    # A GPU with MIG instances can match both: one instance is free, and another is not.
    whole = {name for name, (_, gpu) in GPUS.items() if not gpu.instances}
    matched, others = matching(parse_filter(word)), matching(parse_filter(f"-{word}"))
    assert others & whole == whole - matched
    assert others | matched == set(GPUS)


@given(st.sampled_from(STATES), st.sampled_from(STATES))
def test_a_comma_separates_alternatives(one: str, other: str) -> None:
    widened = matching(parse_filter(f"state:{one},{other}"))
    assert widened == matching(parse_filter(one)) | matching(parse_filter(other))


@given(st.sampled_from(list(FIGURE_GETTERS)), st.integers(0, 10**9 - 1))
def test_what_is_not_measured_matches_no_comparison(key: str, bound: int) -> None:
    node, gpu = GPUS["broken"]
    nothing = msgspec.structs.replace(gpu, memory_total_bytes=None)
    assert not any(
        parse_filter(f"{key}{sign}{bound}").matches(node, nothing) for sign in ("<", ">=")
    )


def test_a_pattern_of_many_stars_is_matched_fast() -> None:
    assert matching(parse_filter(f"node:{'*a' * 400}b")) == set()


def test_a_filter_that_is_too_long_is_refused_before_parsing() -> None:
    with pytest.raises(UsageError, match="at most 1000 characters"):
        parse_filter("free " * 1000)


def test_keys_are_case_insensitive() -> None:
    for key in FILTER_KEYS:
        value = "free" if key == "state" else "1"
        sign = ">" if key in FIGURE_GETTERS else ":"
        assert parse_filter(f"{key.upper()}{sign}{value}").terms[0].key == key
