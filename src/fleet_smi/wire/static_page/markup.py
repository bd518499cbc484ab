"""Build HTML safely: all text is escaped and sanitised, except markup that was built here."""

from functools import lru_cache
from html import escape

from fleet_smi.model.safe_text import sanitize_text

_MAX_TEXT_CHARS = 2000
_CACHE_SIZE = 1024  # most texts of a page are repeated in every row
_VOID_TAGS = ("link", "meta")


class Html(str):
    """Markup built by `element`, which is not escaped again inside another element."""

    __slots__ = ()


HtmlChild = str | None


def element(tag: str, *children: HtmlChild, **attributes: str | int | None) -> Html:
    """Return an element; `class_` is its class, `None` is left out, `_` in a name is a dash."""
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    written = "".join(
        f' {name}="{_escape(str(value))}"' for name, value in pairs if value is not None
    )
    if tag in _VOID_TAGS:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{fragment(*children)}</{tag}>")


def fragment(*children: HtmlChild) -> Html:
    """Return elements and texts one after another."""
    return Html("".join(_markup(child) for child in children if child is not None))


def _markup(child: str) -> str:
    return child if isinstance(child, Html) else _escape(child)


@lru_cache(_CACHE_SIZE)
def _escape(text: str) -> str:
    # Sanitising strips blanks, but those between a text and the next element are wanted.
    # `text[1:]`, so that a single blank does not become two.
    before, after = text[:1] == " ", text[1:][-1:] == " "
    return " " * before + escape(sanitize_text(text, _MAX_TEXT_CHARS)) + " " * after
