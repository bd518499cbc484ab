"""Redaction of likely secrets in command lines: `--password=•••`.

Every user of a machine can read its command lines, but users of other machines should not get
its secrets. What looks like a password, a key or a token is replaced; its name stays, so that the
command can be recognised. Terms of machine learning (`--max-tokens`, `--eos-token`) are left.
"""

import re
from functools import cache, lru_cache

REDACTED = "•••"
# The command lines of a machine are mostly the same from one sample to the next.
_CACHE_SIZE = 256
# A line without any of these, in lower case, has nothing to redact: a cheap test first.
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "credential", "authorization", "bearer", "://"),
    *("akia", "asia", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("sk-", "xox", "aiza", "eyj"),
)
_KEYS = "access|account|auth|encryption|master|private|secret|service|signing|storage"
_NAMES = (
    rf"passw(?:or)?d|passphrase|secret|credentials?|api[-_]?key|(?:{_KEYS})[-_]?key(?:[-_]?id)?"
)
# The tokens of a language model are no secrets, and neither is a plain number or a switch.
_NOT_LANGUAGE_MODEL = (
    r"(?<!(?:bos|cls|eos|eot|pad|sep|sot|unk)[-_])(?<!(?:mask|stop)[-_])"
    r"(?<!(?:audio|begin|image|start|video)[-_])(?<!special[-_])"
)
_OWNERS = "access|api|auth|bearer|id|refresh|secret|session"
_COMMON_NAMES = rf"(?<![a-z])pass|[-_]pwd|{_NOT_LANGUAGE_MODEL}(?<![a-z])(?:{_OWNERS})?token"
_NO_SWITCH = r"(?!(?:\d{1,6}|true|false|yes|no|none|null)(?!\S))"
_IS = r"[\"']?\s?[:=](?:\s(?!-))?[\"']?"
_VALUE = r"(?:(?<=\")[^\"]+|(?<=')[^']+|[^\s\"']+)"
_FLAG = r"(?<!\S)--?[\w.-]{0,64}?"
_NEXT_WORD = r"\s(?!-)[\"']?"
_LONG = r"(?=[\w+=-]{20})(?=\S{0,40}\d)"
_SCHEMES = r"(?:(?:basic|bearer|digest|negotiate|token)\s(?!-))?"
_SHAPES = (
    r"(?:AKIA|ASIA)[0-9A-Z]{16}|hf_[A-Za-z0-9]{20}|gh[oprsu]_[A-Za-z0-9]{20}|github_pat_\w{20}"
    r"|glpat-[\w-]{20}|sk-(?:[a-z0-9]{2,8}-){0,2}[A-Za-z0-9_]{20}|xox[a-z]-[\w-]{10}|AIza[\w-]{30}"
    r"|eyJ[\w-]{10,1000}\.[\w-]{10,1000}\."
)
# In each, the group is the text before the secret, which stays. Every match ends where a word
# does, so that redacting twice is the same as redacting once. Command lines are hostile input:
# repetitions in front of a name are bounded, so that none of them makes the search slow. Only the
# shapes of tokens are case-sensitive.
_SECRETS = (
    r"(://[^\s/:@]*:)[^\s/]+(?=@)",
    rf"(\bauthorization{_IS}{_SCHEMES}){_VALUE}",
    r"(\bbearer\s)(?!-)[\w.~+/=-]{8,}",
    rf"((?:{_NAMES})\d?{_IS}){_VALUE}",
    rf"({_FLAG}(?:{_NAMES})\d?{_NEXT_WORD}){_VALUE}",
    rf"((?:{_COMMON_NAMES}){_IS}){_NO_SWITCH}{_VALUE}",
    rf"({_FLAG}(?:{_COMMON_NAMES}){_NEXT_WORD}){_NO_SWITCH}{_VALUE}",
    rf"((?<![a-z])key{_IS}){_LONG}{_VALUE}",
    rf"({_FLAG}(?<![a-z])key{_NEXT_WORD}){_LONG}{_VALUE}",
    rf"(?<![\w-])(?-i:{_SHAPES})[\w.-]*",
)


@lru_cache(_CACHE_SIZE)
def redact(command: str) -> str:
    """Return the command line with every likely secret replaced."""
    lowered = command.lower()
    if not any(hint in lowered for hint in _HINTS):
        return command
    return _pattern().sub(_without_secret, command)


@cache
def _pattern() -> re.Pattern[str]:
    # Compiled when first needed: most lines have no hint of a secret.
    return re.compile("|".join(_SECRETS), re.IGNORECASE)


def _without_secret(match: re.Match[str]) -> str:
    return (match[match.lastindex] if match.lastindex else "") + REDACTED
