"""Translate decoding errors of msgspec into plain messages that name the field."""

import re

from fleet_smi.model.safe_text import sanitize_text

_MAX_LENGTH = 200
# msgspec has the path of a wrong field only in its message, not as an attribute of the error.
_PLACE = r" - at (`key` in )?`(?:\$\.?)?([^`]*)`$"
_NOUNS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "bytes",
}
"""Type name in msgspec's messages -> what a message to people calls it."""
# Where a whole number was expected, "float" means that it had a fraction.
_GOT = _NOUNS | {"float": "a fraction"}
_BOUNDS = (
    ("of length <=", "no longer than"),
    ("of length >=", "no shorter than"),
    ("<=", "no more than"),
    (">=", "no less than"),
    ("<", "less than"),
    (">", "more than"),
    ("matching regex", "like"),
)
_FAULTS = (
    ("Input data was truncated", "it breaks off"),
    ("JSON is malformed", "it is not JSON"),
    ("MessagePack data is malformed", "it is not msgpack"),
)


def describe_error(error: Exception) -> str:
    """Return why bytes could not be decoded; the path of a wrong field comes first."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    message = str(error)
    place = re.search(_PLACE, message)
    if place is None:
        return sanitize_text(_sentence("", message), _MAX_LENGTH)
    path = f"a name in {place[2] or 'it'}" if place[1] else place[2]
    # The path may hold keys that a sender chose: sanitised like any other text.
    return sanitize_text(_sentence(path, message[: place.start()]), _MAX_LENGTH)


def _sentence(path: str, fault: str) -> str:
    subject = path or "it"
    if field := re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", fault):
        whole = f"{path}.{field[2]}" if path else field[2]
        return f"{whole} is missing" if field[1].startswith("missing") else f"{whole} is not known"
    if kinds := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", fault):
        return f"{subject} must be {_nouns(kinds[1])}, not {_GOT.get(kinds[2], kinds[2])}"
    if bound := re.fullmatch(r"Expected `([^`]*)` (.*)", fault):
        return f"{subject} must be {_nouns(bound[1])} {_replace_prefix(bound[2], _BOUNDS)}"
    if value := re.fullmatch(r"Invalid enum value (.*)", fault):
        return f"{subject} cannot be {value[1]}"
    fault = _replace_prefix(fault, _FAULTS)
    return f"{path}: {fault}" if path else fault


def _replace_prefix(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Replace the first of these prefixes that the text has."""
    for prefix, plain in pairs:
        if text.startswith(prefix):
            return plain + text.removeprefix(prefix)
    return text


def _nouns(kinds: str) -> str:
    return " or ".join(_NOUNS.get(kind, kind) for kind in kinds.split(" | "))
