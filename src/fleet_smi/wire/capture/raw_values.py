"""Raw values of bindings as JSON: bytes, tuples and keys that are no text get a tag."""

from typing import Any

_BYTES, _TUPLE, _ITEMS = "$bytes", "$tuple", "$items"
_TAGS = frozenset({_BYTES, _TUPLE, _ITEMS})


def to_plain(value: Any) -> Any:
    """Return a value that JSON can hold, and from which `from_plain` makes the same again."""
    if isinstance(value, bytes):
        # One character per byte: names of processes may be any bytes.
        return {_BYTES: value.decode("latin-1")}
    if isinstance(value, tuple):
        return {_TUPLE: [to_plain(item) for item in value]}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not _TAGS & value.keys():
            return {key: to_plain(item) for key, item in value.items()}
        return {_ITEMS: [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    return value


def from_plain(value: Any) -> Any:
    """Return the value that `to_plain` was given; raise `ValueError` for a malformed one."""
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, content) = next(iter(value.items()))
        if tag in _TAGS:
            return _untagged(tag, content)
    return {key: from_plain(item) for key, item in value.items()}


def _untagged(tag: str, content: Any) -> Any:
    if tag == _BYTES and isinstance(content, str):
        return content.encode("latin-1")
    if tag == _TUPLE and isinstance(content, list):
        return tuple([from_plain(item) for item in content])
    if tag == _ITEMS and isinstance(content, list):
        pairs = [(from_plain(key), from_plain(item)) for key, item in map(_pair, content)]
        if all(isinstance(key, str | int) for key, _ in pairs):
            return dict(pairs)
    raise ValueError(f"a value that is tagged {tag} has another form")


def _pair(content: Any) -> tuple[Any, Any]:
    if isinstance(content, list) and len(content) == 2:
        return content[0], content[1]
    raise ValueError("a pair of key and value is expected")
