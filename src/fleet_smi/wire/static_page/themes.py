"""Colour themes of the static page: their style sheets, and the key that explains the colours."""

from msgspec import Struct


class Theme(Struct, frozen=True):
    """`style_sheets` are files of this folder, each after the one that it changes."""

    style_sheets: tuple[str, ...]
    colour_key: str


THEMES = {
    "states": Theme(("style.css",), "violet by load, 0 % to 100 %"),
    "classic": Theme(("style.css", "classic.css"), "green is free, red is in use or broken"),
}
DEFAULT_THEME = THEMES["states"]
