"""Regular expressions for node names as patterns of a hub."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.cli.hub_filters import regex_to_glob

PIECES = ("^", "gpu", "0", ".*", ".", r"\d", "[0-9]", r"\.", "a|b", "x+", "$", r"\$", "[", "-", "*")
NAMES = ("gpu0", "gpu01.lab", "a-gpu", "0", "", "gpu$", "xgpu0a", "g.u", "gpu*", "gpu[0")


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), st.sampled_from(NAMES))
def test_a_pattern_matches_the_names_in_which_the_expression_is_found(
    regex: str, name: str
) -> None:
    glob = regex_to_glob(regex)
    if glob is not None:
        found = re.search(regex, name) is not None
        assert (re.match(fnmatch.translate(glob), name) is not None) is found, glob


@pytest.mark.parametrize("regex", ["gpu(1|2)", "gpu0+", "[a-c]", "x{2}", "(?i)gpu", "a?"])
def test_what_no_pattern_can_say_is_left_to_the_command(regex: str) -> None:
    assert regex_to_glob(regex) is None
