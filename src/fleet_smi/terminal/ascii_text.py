"""ASCII substitutes of the same width, for a terminal that has no other characters."""

from fleet_smi.terminal.paint import display_width

_TABLES = "—…·×°→└│█▓▒░▁▂▃▄▅▆▇├─−•", "-~.x >`|##+-_.:-=+*|--*"
_MARKS = "○◇●‖◌✕▶◀▲▼↑↓←▌━", ".LBhg!><^v^v<|-"
SUBSTITUTES = {
    one: plain
    for fancy, plain_texts in (_TABLES, _MARKS)
    for one, plain in zip(fancy, plain_texts, strict=True)
}


def to_ascii(text: str) -> str:
    """Return the text in ASCII, as wide as before."""
    if text.isascii():
        return text
    return "".join([one if one < "\x80" else _substitute(one) for one in text])


def _substitute(character: str) -> str:
    return SUBSTITUTES.get(character, "?" * display_width(character))
