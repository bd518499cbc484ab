"""The filter language: parser and matcher of `free model:A100 mem>40G -user:alice`.

All words must match; commas within a word separate alternatives, `-` before a word negates it,
and quotes protect blanks and commas. A comparison with what is not measured is false.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, cast

from msgspec import Struct

from fleet_smi.errors import UsageError
from fleet_smi.model.filter_keys import (
    FIGURE_GETTERS,
    TEXT_GETTERS,
    FigureKey,
    TextKey,
    instance_as_gpu,
    read_figure,
)
from fleet_smi.model.fleet import STATES, JudgedGpu, NodeView, Verdict
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.units import parse_duration, parse_gibibytes

Operator = Literal[":", "<", "<=", ">", ">="]
MAX_FILTER_LENGTH = 1000
FILTER_KEYS: tuple[str, ...] = (*[key for key in TEXT_GETTERS if key != "word"], *FIGURE_GETTERS)

_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
# In an alternation the first match wins: "<=" has to come before "<".
_KEYED = re.compile(r"(?P<key>[A-Za-z_]+)(?P<sign>:|<=|>=|<|>|=)(?P<value>.*)", re.DOTALL)
_ALTERNATIVE = re.compile(r'(?:[^,"]|"[^"]*")+')
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?:%|°?C|W)?", re.IGNORECASE)
_MAX_SECONDS = 1e10
# These match anywhere in a text, the others only the whole of it.
_SUBSTRING_KEYS = ("word", "model", "why")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Term(Struct, frozen=True, kw_only=True):
    """One word of a filter.

    With the operator `:`, one of `values` must match: lower-case patterns in which `*` matches
    anything. With a comparison, `bound` is in bytes, seconds, percent, degrees Celsius or watts.
    `key` is "word" for a bare word, which is searched in the node, the model and the users.
    """

    key: TextKey | FigureKey
    op: Operator
    values: tuple[str, ...] = ()
    bound: float | None = None
    negated: bool = False

    def matches(self, node: NodeView, gpu: Gpu, verdict: Verdict) -> bool:
        """Return whether this GPU, or instance as a GPU, matches."""
        # Two-valued: where the figure is not measured, `mem>40G` is false and `-mem>40G` true.
        return self._fits(node, gpu, verdict) is not self.negated

    def _fits(self, node: NodeView, gpu: Gpu, verdict: Verdict) -> bool:
        if self.bound is not None:
            figure = read_figure(cast("FigureKey", self.key), node, gpu, verdict, self.bound)
            return figure is not None and _COMPARE[self.op](figure, self.bound)
        read_texts = TEXT_GETTERS[cast("TextKey", self.key)]
        texts = [text.lower() for text in read_texts(node, gpu, verdict)]
        return any(_matches_pattern(text, value) for value in self.values for text in texts)


class Filter(Struct, frozen=True):
    """A parsed filter: every term must match a GPU, or else every term one of its instances."""

    terms: tuple[Term, ...] = ()

    def matches(self, node: NodeView, gpu: JudgedGpu) -> bool:
        """Return whether this GPU of this node matches."""
        verdicts = {instance.uuid: instance.verdict for instance in gpu.instances}
        return self.matches_parts(node, gpu, gpu.verdict, verdicts)

    def matches_parts(
        self, node: NodeView, gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict]
    ) -> bool:
        """Return the same for a GPU and the verdicts on it and on its instances."""
        if self._matches_device(node, gpu, verdict):
            return True
        return any(
            self._matches_device(node, instance_as_gpu(gpu, instance), verdicts[instance.uuid])
            for instance in gpu.instances
        )

    def _matches_device(self, node: NodeView, gpu: Gpu, verdict: Verdict) -> bool:
        return all(term.matches(node, gpu, verdict) for term in self.terms)


def parse_filter(text: str) -> Filter:
    """Parse a filter; raise a `UsageError` that names the word at fault."""
    if len(text) > MAX_FILTER_LENGTH:
        raise UsageError(f"a filter has at most {MAX_FILTER_LENGTH} characters")
    if text.count('"') % 2:
        raise UsageError('a quote (") is not closed')
    return Filter(tuple(_term(word) for word in _WORD.findall(text)))


def _term(word: str) -> Term:
    body, negated = word.removeprefix("-"), word.startswith("-")
    keyed = _KEYED.fullmatch(body)
    if keyed is None:
        key, values = _bare(word, body)
        return Term(key=key, op=":", values=values, negated=negated)
    name, sign, value = keyed["key"].lower(), keyed["sign"], keyed["value"]
    if name in FIGURE_GETTERS:
        bound = _bound(word, name, sign, value)
        op, figure = cast("Operator", sign), cast("FigureKey", name)
        return Term(key=figure, op=op, bound=bound, negated=negated)
    if name not in FILTER_KEYS:
        label = f"; a label is label:{body}" if sign == "=" else _nearest(name, FILTER_KEYS)
        raise UsageError(f"{word!r}: there is no key {name!r}{label}")
    if sign != ":":
        raise UsageError(f"{word!r}: {name} is not a number; write {name}:{value or '…'}")
    values = _patterns(word, name, value)
    return Term(key=cast("TextKey", name), op=":", values=values, negated=negated)


def _bare(word: str, body: str) -> tuple[TextKey, tuple[str, ...]]:
    """Parse a word without a key: states, unless quoted, or else part of a name."""
    words = _alternatives(word, body)
    states = [one for one in words if one in STATES and '"' not in body]
    if not states:
        return "word", tuple(f"*{one}*" for one in words)
    if len(states) < len(words):
        raise UsageError(f"{word!r} mixes a state and something else: write two words")
    return "state", tuple(states)


def _bound(word: str, name: str, sign: str, value: str) -> float:
    if sign not in _COMPARE:
        than = value or "…"
        raise UsageError(f"{word!r}: {name} is a number; write {name}>{than} or {name}<{than}")
    try:
        return _BOUNDS.get(name, _number)(value)
    except UsageError as error:
        raise UsageError(f"{word!r}: {error}") from None


def _patterns(word: str, name: str, value: str) -> tuple[str, ...]:
    found = _alternatives(word, value)
    if name == "label":
        return tuple(_labels(found))
    if name == "state":
        for one in found:
            if one not in STATES:
                raise UsageError(f"{word!r}: there is no state {one!r}{_nearest(one, STATES)}")
    return tuple(f"*{one}*" if name in _SUBSTRING_KEYS else one for one in found)


def _labels(found: Iterable[str]) -> Iterator[str]:
    """Expand `rack=a,b` to `rack=a,rack=b`."""
    name = ""
    for one in found:
        if "=" in one:
            name = one.partition("=")[0]
        yield one if "=" in one or not name else f"{name}={one}"


def _alternatives(word: str, value: str) -> list[str]:
    parts = (one.replace('"', "").strip().lower() for one in _ALTERNATIVE.findall(value))
    found = [one for one in parts if one]
    if not found:
        raise UsageError(f"{word!r}: there is no value to match")
    return found


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: the likely spelling, or else all that exist."""
    from difflib import get_close_matches  # only for an error message

    known = tuple(known)
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _number(text: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a number")
    return float(match[1])


def _seconds(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > _MAX_SECONDS:
        raise UsageError(f"{text[:20]!r} is too long")
    return seconds


_BOUNDS: Mapping[str, Callable[[str], float]] = {
    "mem": parse_gibibytes,
    "used": parse_gibibytes,
    "total": parse_gibibytes,
    "idle": _seconds,
}


def _matches_pattern(text: str, pattern: str) -> bool:
    """Match the whole text against a pattern in which `*` matches anything.

    Each part is searched once from left to right: no pattern can make this slow, as one for
    a regular expression could.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    at, last = len(first), rest.pop()
    for part in rest:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)
