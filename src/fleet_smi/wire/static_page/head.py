"""The head of a static page: style inline, and a policy that allows nothing else."""

from base64 import b64encode
from hashlib import sha256

from fleet_smi.wire.static_page.markup import Html, element


def page_head(title: str, style: str, *, refresh_seconds: int | None = None) -> Html:
    """Return the head of a page to save or mail; with `refresh_seconds`, of one that is served."""
    refresh = icon = None
    if refresh_seconds is not None:
        refresh = element("meta", http_equiv="refresh", content=refresh_seconds)
        # An empty icon: without one, browsers request /favicon.ico.
        icon = element("link", rel="icon", href="data:,")
    policy = content_security_policy(style)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("title", title),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        refresh,
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        icon,
        element("style", Html(style)),
    )


def content_security_policy(style: str) -> str:
    """Return a Content-Security-Policy that allows only this style sheet, by its hash."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    allowed = f"style-src 'sha256-{digest}'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
