"""What is wrong with a message, in plain words with the place: never in those of a decoder."""

import re

from fleet_smi.model.safe_text import sanitize_text

_LONGEST = 200
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
"""What a decoder calls a thing, and what people do."""
_CAME = _NOUNS | {"float": "a fraction"}
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
    """Why bytes could not be read; of a field that is wrong, its path comes first."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    said = str(error)
    place = re.search(_PLACE, said)
    if place is None:
        return sanitize_text(_sentence("", said), _LONGEST)
    path = f"a name in {place[2] or 'it'}" if place[1] else place[2]
    return sanitize_text(_sentence(path, said[: place.start()]), _LONGEST)


def _sentence(path: str, fault: str) -> str:
    subject = path or "it"
    if field := re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", fault):
        whole = f"{path}.{field[2]}" if path else field[2]
        return f"{whole} is missing" if field[1].startswith("missing") else f"{whole} is not known"
    if kinds := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", fault):
        return f"{subject} must be {_nouns(kinds[1])}, not {_CAME.get(kinds[2], kinds[2])}"
    if bound := re.fullmatch(r"Expected `([^`]*)` (.*)", fault):
        return f"{subject} must be {_nouns(bound[1])} {_replaced(bound[2], _BOUNDS)}"
    if value := re.fullmatch(r"Invalid enum value (.*)", fault):
        return f"{subject} cannot be {value[1]}"
    fault = _replaced(fault, _FAULTS)
    return f"{path}: {fault}" if path else fault


def _replaced(words: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """The words with the first beginning of a pair that they have in its plain form."""
    for written, plain in pairs:
        if words.startswith(written):
            return plain + words.removeprefix(written)
    return words


def _nouns(kinds: str) -> str:
    return " or ".join(_NOUNS.get(kind, kind) for kind in kinds.split(" | "))
