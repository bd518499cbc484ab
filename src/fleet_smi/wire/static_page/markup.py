"""HTML that cannot be broken into: all text is escaped, but for what was made here."""

from functools import lru_cache
from html import escape

from fleet_smi.model.safe_text import sanitize_text

_LONGEST_TEXT = 2000
_REMEMBERED = 1024  # most words of a page are on every row of it
_EMPTY = ("link", "meta")


class Html(str):
    """Markup that was made by `element`, to stand in another one as it is."""

    __slots__ = ()


HtmlChild = str | None


def element(tag: str, *children: HtmlChild, **attributes: str | int | None) -> Html:
    """An element; `class_` is its class, `None` is left out, and `_` in a name is a dash."""
    pairs = ((name.rstrip("_").replace("_", "-"), each) for name, each in attributes.items())
    words = "".join(f' {name}="{_escaped(str(each))}"' for name, each in pairs if each is not None)
    if tag in _EMPTY:
        return Html(f"<{tag}{words}>")
    return Html(f"<{tag}{words}>{fragment(*children)}</{tag}>")


def fragment(*children: HtmlChild) -> Html:
    """Elements and texts one after another."""
    return Html("".join(_markup(child) for child in children if child is not None))


def _markup(child: str) -> str:
    return child if isinstance(child, Html) else _escaped(child)


@lru_cache(_REMEMBERED)
def _escaped(text: str) -> str:
    before, after = text[:1] == " ", text[1:][-1:] == " "
    return " " * before + escape(sanitize_text(text, _LONGEST_TEXT)) + " " * after
