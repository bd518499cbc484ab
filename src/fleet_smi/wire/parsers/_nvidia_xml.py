"""Parse the XML of `nvidia-smi -q -x` into a tree; recover what it can of a damaged one.

All of it is hostile input: no DTD or entity is ever resolved, and the size is capped.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, SubElement, XMLPullParser, fromstring
from xml.sax.saxutils import escape, unescape

from fleet_smi.errors import ReadFailed
from fleet_smi.wire.parsers._nvidia_errors import classify_failure

MAX_OUTPUT_CHARS = 16 * 2**20
MAX_GPUS = 1024

# What XML 1.0 cannot hold. A process name may be any bytes.
_INVALID_CHARS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def parse_document(text: str) -> tuple[Element, set[int]]:
    """Return the root of the last document, and the positions of damaged GPUs in it.

    Raise the error that nvidia-smi printed instead of a document, or `ReadFailed`.
    """
    if len(text) > MAX_OUTPUT_CHARS:
        raise ReadFailed(f"nvidia-smi printed more than {MAX_OUTPUT_CHARS >> 20} MiB")
    if "<nvidia_smi_log" not in text:
        raise classify_failure(text) or ReadFailed("this is not what nvidia-smi -q -x prints")
    if "<!ENTITY" in text:
        raise ReadFailed("the XML defines entities, which nvidia-smi never does: refused")
    # Cut off the prolog: no DTD, external or internal, ever reaches the parser.
    end = text.rfind("</nvidia_smi_log>")
    start = text.rfind("<nvidia_smi_log", 0, end) if end >= 0 else text.rfind("<nvidia_smi_log")
    body = text[start : end + len("</nvidia_smi_log>")] if end >= 0 else text[start:]
    # The supported clocks are up to 90 % of the bytes, and none of them is used.
    body = _rewrite(_INVALID_CHARS.sub("", body), "supported_clocks", lambda _: "")
    if body.count("<gpu ") > MAX_GPUS:
        raise ReadFailed(f"nvidia-smi printed more than {MAX_GPUS} GPUs")
    try:
        return fromstring(body), set()  # noqa: S314  # no prolog, no entities
    except ParseError:
        return _recover(body)


def _recover(body: str) -> tuple[Element, set[int]]:
    """Parse each GPU by itself, so that a damaged one does not hide the others."""
    head, *blocks = re.split(r"(?=<gpu )", body)
    root = Element("nvidia_smi_log")
    for tag in ("driver_version", "cuda_version", "attached_gpus"):
        if match := re.search(rf"<{tag}>([^<]{{0,64}})</{tag}>", head):
            SubElement(root, tag).text = match[1]
    damaged: set[int] = set()
    for index, block in enumerate(blocks):
        element, is_whole = _block(block)
        root.append(element)
        if not is_whole:
            damaged.add(index)
    if not blocks:
        raise ReadFailed("the XML of nvidia-smi breaks off before the first GPU")
    return root, damaged


def _block(block: str) -> tuple[Element, bool]:
    end = block.find("</gpu>")
    # The one damage known from practice: a process name with a bare "<" or "&" in it.
    block = _rewrite(block, "process_name", lambda name: escape(unescape(name)))
    if end >= 0:
        try:
            # Searched again: escaping may have moved it.
            return fromstring(block[: block.find("</gpu>") + len("</gpu>")]), True  # noqa: S314
        except ParseError:
            pass
    return _closed_elements(block), False


def _closed_elements(block: str) -> Element:
    """Return the elements that were closed before the text breaks off."""
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    opened: list[Element] = []
    parser.feed(block)
    events: Iterator[Any] = parser.read_events()
    root = Element("gpu")
    try:
        for event, element in events:
            if event == "start":
                root = element if not opened else root
                opened.append(element)
            elif opened.pop() is root:
                return root
    except ParseError:
        pass
    # An element that is still open may have half of its text, or a list that only looks empty.
    for parent, child in zip(reversed(opened[:-1]), reversed(opened[1:]), strict=True):
        if len(child) == 0:
            parent.remove(child)
    return root


def _rewrite(text: str, tag: str, change: Callable[[str], str]) -> str:
    """Change the content of each `tag`; linear in the length of any text, unlike a regex."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    parts: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        start += len(opening)
        parts += (text[at:start], change(text[start:end]))
        at = end
    return "".join((*parts, text[at:]))
