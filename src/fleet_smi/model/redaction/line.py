"""A command line while it is redacted: questions about the text around one place of it."""

import re
from functools import cache

Span = tuple[int, int]
"""Where a secret begins and ends."""
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# How much text on either side of a word may decide whether a secret follows it.
_BEFORE, _AFTER = 66, 48
# The backslash is that of JSON within quotes.
IS = r"\\?[\"']?\s?[:=](?:\s(?!-))?\\?[\"']?"
# A value may begin with a dash as well; one letter after a dash, or two dashes, are a flag.
NEXT_WORD = r"\s[\"']?(?!-(?:-|\S?(?:\s|$)))(?=\S)"
# After a name that is also an ordinary word: only if it looks like a token.
NEXT_PLAIN_WORD = r"\s(?!-)[\"']?|\s[\"']?(?=-[^\s-]\S{6})(?=\S{0,40}\d)"


class CommandLine:
    """A command line in its own and in lower case."""

    def __init__(self, text: str) -> None:
        self.text = text
        # `lower` may change the length of other alphabets, and with it every position.
        self.lowered = text.lower() if text.isascii() else text.translate(_ASCII_LOWER)

    def before(self, at: int) -> str:
        """Return the text before this place, in lower case."""
        return self.lowered[max(0, at - _BEFORE) : at]

    def follows_letter(self, at: int) -> bool:
        """Return whether there is a letter before this place."""
        return "a" <= self.before(at)[-1:] <= "z"

    def follows_word(self, at: int) -> bool:
        """Return whether a letter, a digit or an underscore is before this place."""
        return at > 0 and (self.text[at - 1].isalnum() or self.text[at - 1] == "_")

    def match(self, pattern: str, at: int) -> int | None:
        """Return where the pattern ends that begins here; `None` if it does not match."""
        found = compiled(pattern).match(self.lowered, at, at + _AFTER)
        return None if found is None else found.end()

    def is_in_flag(self, at: int) -> bool:
        """Return whether this place is in a word like `--db-…`."""
        before = self.before(at)
        word = "" if before[-1:].isspace() else before.split()[-1] if before else ""
        start = at - len(word)
        if start > 0 and not self.text[start - 1].isspace():
            return False  # longer than any flag
        return compiled(r"--?[\w.-]*").fullmatch(word) is not None

    def value_of_name(self, end: int, flag_at: int, next_word: str = NEXT_WORD) -> int | None:
        """Return where the value of a name begins: after `=` or `:`, or after a flag's blank."""
        start = self.match(IS, end)
        if start is not None:
            return start
        return self.match(next_word, end) if self.is_in_flag(flag_at) else None

    def span(self, start: int | None) -> Span | None:
        """Return the value from here to its closing quote, else to a blank or any quote."""
        if start is None:
            return None
        pattern = {'"': r'[^"]+', "'": r"[^']+"}.get(self.text[start - 1], r"[^\s\"']+")
        found = compiled(pattern).match(self.text, start)
        return None if found is None else found.span()


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: most lines have no hint of a secret."""
    return re.compile(pattern)
