"""Redaction of likely secrets in command lines: `--password=•••`.

Every user of a machine can read its command lines, but users of other machines should not get
its secrets. What looks like a password, a key or a token is replaced; its name stays, so that the
command can be recognised. Terms of machine learning (`--max-tokens`, `--eos-token`) are left.

Command lines are hostile input, so the work is linear in their length: a few passes find the
words that may introduce a secret, and only there the text around is examined, a bounded number
of times per line.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial

from fleet_smi.model.redact_programs import PasswordFlag, password_flags

REDACTED = "•••"
MAX_CANDIDATES = 64
"""Places of one line at which a secret is looked for; a line with more is cut there."""
# The command lines of a machine are mostly the same from one sample to the next, and so are those
# of a fleet, where a hub checks them again.
_CACHE_SIZE = 4096
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# How much text on either side of a word may decide whether a secret follows it.
_BEFORE, _AFTER = 66, 48

_KEY_OWNERS = (
    *("access", "account", "api", "auth", "encryption", "master", "private", "secret"),
    *("service", "signing", "storage"),
)
_TOKEN_OWNERS = ("access", "api", "auth", "bearer", "id", "refresh", "secret", "session")
# The tokens of a language model are no secrets, and neither is a plain number or a switch.
_MODEL_TOKENS = (
    *("audio", "begin", "bos", "cls", "eos", "eot", "image", "mask", "pad", "sep", "sot"),
    *("special", "start", "stop", "unk", "video"),
)
_SWITCH = r"(?:\d{1,6}|true|false|yes|no|none|null)(?!\S)"
_IS = r"[\"']?\s?[:=](?:\s(?!-))?[\"']?"
_NEXT_WORD = r"\s(?!-)[\"']?"
_SCHEME = r"(?:basic|bearer|digest|negotiate|token)\s(?!-)"
_LONG = r"(?=[\w+=-]{20})(?=\S{0,40}\d)"
_PATH = r"[/~]|\.{1,2}/|\$(?:pwd|home|[({])"
_SHAPES = (
    r"(?:(?:AKIA|ASIA)[0-9A-Z]{16}|hf_[A-Za-z0-9]{20}|gh[oprsu]_[A-Za-z0-9]{20}|github_pat_\w{20}"
    r"|glpat-[\w-]{20}|sk-(?:[a-z0-9]{2,8}-){0,2}[A-Za-z0-9_]{20}|xox[a-z]-[\w-]{10}"
    r"|AIza[\w-]{30}|eyJ[\w-]{10,1000}\.[\w-]{10,1000}\.)[\w.-]*"
)
Span = tuple[int, int]
"""Where a secret begins and ends."""


class _Line:
    """A command line, with tests of the text around one position."""

    def __init__(self, text: str) -> None:
        self.text = text
        # `lower` may change the length of other alphabets, and with it every position.
        self.lowered = text.lower() if text.isascii() else text.translate(_ASCII_LOWER)

    def before(self, at: int) -> str:
        return self.lowered[max(0, at - _BEFORE) : at]

    def match(self, pattern: str, at: int) -> int | None:
        """Return where the pattern ends that begins here; `None` if it does not match."""
        found = _compiled(pattern).match(self.lowered, at, at + _AFTER)
        return None if found is None else found.end()

    def is_in_flag(self, at: int) -> bool:
        """Whether this place is in a word like `--db-…`."""
        before = self.before(at)
        word = "" if before[-1:].isspace() else before.split()[-1] if before else ""
        start = at - len(word)
        if start > 0 and not self.text[start - 1].isspace():
            return False  # longer than any flag
        return _compiled(r"--?[\w.-]*").fullmatch(word) is not None

    def value_of_name(self, end: int, flag_at: int) -> int | None:
        """Return where the value of a name begins: after `=` or `:`, or after a flag's blank."""
        start = self.match(_IS, end)
        if start is not None:
            return start
        return self.match(_NEXT_WORD, end) if self.is_in_flag(flag_at) else None

    def span(self, start: int | None) -> Span | None:
        """The value from here to its closing quote, else to a blank or any quote."""
        if start is None:
            return None
        pattern = {'"': r'[^"]+', "'": r"[^']+"}.get(self.text[start - 1], r"[^\s\"']+")
        found = _compiled(pattern).match(self.text, start)
        return None if found is None else found.span()


Rule = Callable[[_Line, int], Span | None]
"""Looks for the secret that the word at this place introduces."""


@lru_cache(_CACHE_SIZE)
def redact(command: str) -> str:
    """Return the command line with every likely secret replaced."""
    return _replace(command)[0]


def count_candidates(command: str) -> int:
    """Return at how many places of the line a secret was looked for: the work of `redact`."""
    return _replace(command)[1]


def may_have_secrets(text: str) -> bool:
    """Return whether this text needs `redact`; a cheap test of many lines at once."""
    lowered = text.lower()
    return any(word in lowered for word in _RULES) or bool(password_flags(lowered))


def _replace(command: str) -> tuple[str, int]:
    line = _Line(command)
    rules = _RULES | _flag_rules(line.lowered)
    # The next place of each word, so that no part of the line is searched twice for it.
    ahead = {word: at for word in rules if (at := line.lowered.find(word)) >= 0}
    parts: list[str] = []
    done = candidates = 0
    while ahead:
        word = min(ahead, key=ahead.__getitem__)
        at = ahead[word]
        if candidates == MAX_CANDIDATES:
            return "".join([*parts, command[done:at], REDACTED]), candidates
        candidates += 1
        span = rules[word](line, at)
        if span is not None:
            parts += [command[done : span[0]], REDACTED]
            done = span[1]
        _advance(ahead, line.lowered, max(at + 1, done))
    return "".join([*parts, command[done:]]) if parts else command, candidates


def _advance(ahead: dict[str, int], lowered: str, start: int) -> None:
    for word, at in [*ahead.items()]:
        if at < start:
            ahead[word] = lowered.find(word, start)
            if ahead[word] < 0:
                del ahead[word]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Compiled when first needed: most lines have no hint of a secret.
    return re.compile(pattern)


def _password(line: _Line, at: int) -> Span | None:
    """`--password x`, `PGPASSWORD=x`; by stricter rules `--pass x`, `pass: x`."""
    end = line.match(r"pass(?:w(?:or)?d|phrase)\d?", at)
    if end is not None:
        return line.span(line.value_of_name(end, at))
    return _common_name(line, at, at + len("pass"))


def _short_password(line: _Line, at: int) -> Span | None:
    """`--pw x`, `db_pwd=x`, `Pwd=x`; but not `PWD=/home/alice`, which is a folder."""
    end = line.match(r"pwd?(?![a-z])", at)
    if end is None:
        return None
    if end - at == 3 and line.before(at)[-1:] not in ("-", "_"):  # a bare `pwd`
        start = line.match(_IS, end)
        if start is not None and line.match(_PATH, start) is not None:
            return None
    return _common_name(line, at, end)


def _secret(line: _Line, at: int) -> Span | None:
    end = line.match(r"(?:secret|credentials?)\d?", at)
    return None if end is None else line.span(line.value_of_name(end, at))


def _token(line: _Line, at: int) -> Span | None:
    before = line.before(at)
    owner = next((owner for owner in _TOKEN_OWNERS if before.endswith(owner)), "")
    name_at = at - len(owner)
    if before[-1:] in ("-", "_") and before[:-1].endswith(_MODEL_TOKENS):
        return None
    return _common_name(line, name_at, at + len("token"))


def _key(line: _Line, at: int) -> Span | None:
    before = line.before(at)
    owner = before[:-1] if before[-1:] in ("-", "_") else before
    if owner.endswith(_KEY_OWNERS):
        end = line.match(r"key(?:[-_]?id)?\d?", at)
        return None if end is None else line.span(line.value_of_name(end, at))
    if _follows_letter(before):
        return None
    # Most keys are names of fields or of columns: only a long value with digits is a secret.
    start = line.value_of_name(at + len("key"), at)
    return line.span(start) if start and line.match(_LONG, start) is not None else None


def _common_name(line: _Line, at: int, end: int) -> Span | None:
    """A name that is also an ordinary word: it stands alone, and its value is no switch."""
    if _follows_letter(line.before(at)):
        return None
    start = line.value_of_name(end, at)
    if start is None or line.match(_SWITCH, start) is not None:
        return None
    return line.span(start)


def _authorization(line: _Line, at: int) -> Span | None:
    start = line.match("authorization" + _IS, at)
    if start is None or _follows_word(line, at):
        return None
    return line.span(line.match(_SCHEME, start) or start)


def _bearer(line: _Line, at: int) -> Span | None:
    start = line.match(r"bearer\s(?!-)", at)
    if start is None or _follows_word(line, at):
        return None
    found = _compiled(r"[\w.~+/=-]{8,}").match(line.text, start)
    return None if found is None else found.span()


def _url(line: _Line, at: int) -> Span | None:
    """`://name:secret@host`."""
    found = _compiled(r"://[^\s/:@]*:").match(line.text, at)
    if found is None:
        return None
    rest = _compiled(r"[^\s/]*").match(line.text, found.end())
    end = line.text.rfind("@", found.end(), found.end() if rest is None else rest.end())
    return (found.end(), end) if end > found.end() else None


def _shape(line: _Line, at: int) -> Span | None:
    """A token that is recognised by its form, which is case-sensitive."""
    if _follows_word(line, at) or line.before(at)[-1:] == "-":
        return None
    found = _compiled(_SHAPES).match(line.text, at)
    return None if found is None else found.span()


def _flag_rules(lowered: str) -> dict[str, Rule]:
    flags: dict[str, list[tuple[int, PasswordFlag]]] = {}
    for first, flag in password_flags(lowered):
        flags.setdefault(f" {flag.flag.lower()}", []).append((first, flag))
    return {word: partial(_flag, flags=found) for word, found in flags.items()}


def _flag(line: _Line, at: int, *, flags: list[tuple[int, PasswordFlag]]) -> Span | None:
    for first, flag in flags:
        end = at + 1 + len(flag.flag)
        if at < first or line.text[at + 1 : end] != flag.flag:
            continue
        start = line.match(_NEXT_WORD if flag.in_next_word else r"(?!)", end)
        if start is None and flag.in_word:
            start = line.match(r"=?(?=\S)[\"']?", end)
        span = line.span(start)
        if span is not None and flag.separator:
            separator = line.text.find(flag.separator, *span)
            span = (separator + 1, span[1]) if span[0] <= separator < span[1] - 1 else None
        if span is not None:
            return span
    return None


def _follows_letter(before: str) -> bool:
    return "a" <= before[-1:] <= "z"


def _follows_word(line: _Line, at: int) -> bool:
    return at > 0 and (line.text[at - 1].isalnum() or line.text[at - 1] == "_")


# By the word that introduces a secret, in lower case.
_RULES: dict[str, Rule] = {
    "://": _url,
    "pass": _password,
    "pw": _short_password,
    "secret": _secret,
    "credential": _secret,
    "token": _token,
    "key": _key,
    "authorization": _authorization,
    "bearer": _bearer,
    **dict.fromkeys(("akia", "asia", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _shape),
    **dict.fromkeys(("github_pat_", "glpat-", "sk-", "xox", "aiza", "eyj"), _shape),
}
