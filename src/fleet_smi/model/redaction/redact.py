"""Redaction of likely secrets in command lines: `--password=•••`.

Every user of a machine can read its command lines, but users of other machines should not get
its secrets. What looks like a password, a key or a token is replaced; its name stays, so that the
command can be recognised. Terms of machine learning (`--max-tokens`, `--eos-token`) are left.

Command lines are hostile input, so the work is linear in their length: a few passes find the
words that may introduce a secret, and only there the text around is examined, a bounded number
of times per line.
"""

from functools import lru_cache

from fleet_smi.model.redaction.line import CommandLine
from fleet_smi.model.redaction.programs import password_flags
from fleet_smi.model.redaction.rules import RULES, flag_rules

REDACTED = "•••"
MAX_CANDIDATES = 64
"""Places of one line at which a secret is looked for; a line with more is cut there."""
# The command lines of a machine are mostly the same from one sample to the next, and so are those
# of a fleet, where a hub checks them again.
_CACHE_SIZE = 4096
# Longer texts are not cached: hostile ones must not fill the memory.
_MAX_CACHED_CHARACTERS = 4096


@lru_cache(_CACHE_SIZE)
def redact(command: str) -> str:
    """Return the command line with every likely secret replaced."""
    return _replace(command)


def may_have_secrets(text: str) -> bool:
    """Return whether this text needs `redact`; a cheap test of many lines at once."""
    # Of most nodes the lines are those of the report before: looking them up takes a twentieth.
    return _has_hint(text) if len(text) > _MAX_CACHED_CHARACTERS else _has_hint_cached(text)


def _has_hint(text: str) -> bool:
    lowered = text.lower()
    # Without a generator, which takes longer than the search: this runs for every report.
    return any(map(lowered.__contains__, RULES)) or bool(password_flags(lowered))


_has_hint_cached = lru_cache(_CACHE_SIZE)(_has_hint)


def _replace(command: str) -> str:
    line = CommandLine(command)
    rules = RULES | flag_rules(line.lowered)
    # The next place of each word, so that no part of the line is searched twice for it.
    ahead = {word: at for word in rules if (at := line.lowered.find(word)) >= 0}
    parts: list[str] = []
    done = candidates = 0
    while ahead:
        word = min(ahead, key=ahead.__getitem__)
        at = ahead[word]
        if candidates == MAX_CANDIDATES:
            return "".join([*parts, command[done:at], REDACTED])
        candidates += 1
        span = rules[word](line, at)
        if span is not None:
            parts += [command[done : span[0]], REDACTED]
            done = span[1]
        _advance(ahead, line.lowered, word, at, done)
    return "".join([*parts, command[done:]]) if parts else command


def _advance(ahead: dict[str, int], lowered: str, examined: str, at: int, done: int) -> None:
    """Move every word to its next place; another word may begin where one was just examined."""
    for word, place in [*ahead.items()]:
        start = max(done, at + 1 if word == examined else at)
        if place < start:
            ahead[word] = lowered.find(word, start)
            if ahead[word] < 0:
                del ahead[word]
