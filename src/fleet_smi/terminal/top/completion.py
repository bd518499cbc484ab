"""Completion of the filter: the words that match something in this fleet."""

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.model.fleet import STATES, NodeView, State
from fleet_smi.model.stream_payload import NodePayload
from fleet_smi.terminal.top.nodes import FleetNodes
from fleet_smi.terminal.view.formatting import short_model

_LAST_WORD = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+$')
_NEEDS_QUOTES = re.compile(r"[\s,]")
_MAX_PER_KEY = 200
_STATE_MEANINGS: dict[State, str] = {
    "free": "GPUs and MIG instances not in use",
    "leased": "reserved or closed, not in use",
    "busy": "GPUs in use",
    "held": "memory allocated, no work",
    "ghost": "memory in use by no known process",
    "broken": "GPUs that need repair",
    "unknown": "on silent nodes, or not readable",
}
_FIGURES = (
    ("mem>40G", "more than 40 GiB of memory free"),
    ("used>1G", "more than 1 GiB of memory in use"),
    ("total>40G", "more than 40 GiB of memory in total"),
    ("load<10", "load below 10 %"),
    ("idle>1h", "idle for more than an hour"),
    ("temp>80", "hotter than 80 °C"),
    ("power>300", "drawing more than 300 W"),
)


class Suggestion(Struct, frozen=True):
    """A word of the filter language, and what it selects."""

    word: str
    meaning: str


def known_words(fleet: FleetNodes) -> list[Suggestion]:
    """Return the words that match something in this fleet, the most common of each kind first."""
    models, users, labels = Counter[str](), Counter[str](), Counter[str]()
    names: list[str] = []
    for item in fleet:
        names.append(item.name)
        labels.update([f"{name}={value}" for name, value in item.facts.labels.items()])
        for gpu in item.facts.gpus:
            if gpu.name:
                models[_model_word(gpu.name)] += 1
        users.update(_users(item.facts))
    words = [Suggestion(state, _STATE_MEANINGS[state]) for state in STATES]
    words += [Suggestion(word, meaning) for word, meaning in _FIGURES]
    words += _keyed("model", models, "GPUs of this model")
    words += _keyed("user", users, "GPUs used by this person")
    words += _keyed("label", labels, "nodes with this label")
    words += _keyed("node", Counter(sorted(names)), "this node; * matches anything")
    return words


def _users(facts: NodeView | NodePayload) -> list[str]:
    """Return the users of each GPU: a stream has their names, a view their processes."""
    if isinstance(facts, NodePayload):
        return [user for gpu in facts.gpus for user in gpu.verdict.users or ()]
    processes = [{each.user for each in gpu.processes or ()} for gpu in facts.gpus]
    return [user for users in processes for user in users if user]


def _keyed(key: str, counts: Counter[str], meaning: str) -> Iterable[Suggestion]:
    for value, _ in counts.most_common(_MAX_PER_KEY):
        plain = value.replace('"', "*")
        shown = f'"{plain}"' if _NEEDS_QUOTES.search(plain) else plain
        yield Suggestion(f"{key}:{shown}", meaning)


def _model_word(name: str) -> str:
    """Return "A100" of "NVIDIA A100-SXM4-80GB"; the short name if its first word has no digit."""
    first, *_ = short_model(name).split()
    return first if any(map(str.isdigit, first)) else short_model(name)


def suggest(words: Iterable[Suggestion], text: str, limit: int) -> list[Suggestion]:
    """Return the words that complete the last one of the text: by its start, then by its value."""
    typed = last_word(text).lower().replace('"', "")
    sign = "-" if typed.startswith("-") else ""
    typed = typed.removeprefix("-")
    if not typed:
        return []
    starts, values = [], []
    for each in words:
        plain = each.word.lower().replace('"', "")
        if plain == typed:
            continue
        if plain.startswith(typed):
            starts.append(each)
        elif plain.partition(":")[2].startswith(typed):
            values.append(each)
    found = [*starts, *values][:limit]
    return [Suggestion(sign + each.word, each.meaning) for each in found]


def last_word(text: str) -> str:
    """Return the word that is being typed; empty after a blank."""
    found = _LAST_WORD.search(text)
    return found[0] if found else ""


def complete(text: str, word: str) -> str:
    """Replace the word that is being typed."""
    return f"{text[: len(text) - len(last_word(text))]}{word} "
