"""A pool of browser pages: a used page is reset and used again.

A new page starts processes, which read fonts and compile the page's code: that takes three times
as long as loading the page once more.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Dialog, Frame, Page

DESKTOP_VIEWPORT = {"width": 1440, "height": 900}
CLIPBOARD = ["clipboard-read", "clipboard-write"]
_MEDIA_OPTIONS = ("color_scheme", "reduced_motion")


class NewPage(Protocol):
    """Open a page; the options are those of a browser context.

    One for `single_use` is not reset afterwards: for tests that replace its clock.
    """

    def __call__(self, *, single_use: bool = False, **options: Any) -> Page: ...


class PagePool:
    """The pages of a browser, by their options; each has cookies and storage of its own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._unused: dict[str, list[_CheckedPage]] = defaultdict(list)

    @contextmanager
    def checked_pages(self) -> Iterator[NewPage]:
        """Lend pages; fail if one had an error, a warning, a dialog or a violation of the CSP."""
        lent: list[tuple[str | None, _CheckedPage]] = []

        def new_page(*, single_use: bool = False, **options: Any) -> Page:
            key = repr(sorted(options.items()))
            unused = [] if single_use else self._unused[key]
            checked = unused.pop() if unused else _CheckedPage(self._browser, options)
            lent.append((None if single_use else key, checked))
            return checked.page

        yield new_page
        problems: list[str] = []
        for key, checked in lent:
            problems += checked.problems
            if key is None:
                checked.close()
            else:
                checked.reset()
                self._unused[key].append(checked)
        assert not problems


class _CheckedPage:
    """A page that records its problems, and the origins that may have stored something."""

    def __init__(self, browser: Browser, options: dict[str, Any]) -> None:
        defaults = {"viewport": DESKTOP_VIEWPORT, "permissions": CLIPBOARD}
        self._context = browser.new_context(**(defaults | options))
        self._media = {name: options.get(name, "null") for name in _MEDIA_OPTIONS}
        self._origins: set[str] = set()
        self.problems: list[str] = []
        self.page = self._context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._refuse)
        self.page.on("console", lambda message: self._record(message.type, message.text))
        self.page.on("framenavigated", self._visit)

    def reset(self) -> None:
        """Leave the page as a new one would be."""
        self.page.unroute_all()
        self.page.goto("about:blank")
        self.page.emulate_media(media="null", **self._media)
        self._context.clear_cookies()
        session = self._context.new_cdp_session(self.page)
        for origin in self._origins:
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()
        self._origins.clear()
        self.problems.clear()

    def close(self) -> None:
        self._context.close()

    def _visit(self, frame: Frame) -> None:
        url = urlsplit(frame.url)
        if url.netloc:
            self._origins.add(f"{url.scheme}://{url.netloc}")

    def _refuse(self, dialog: Dialog) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _record(self, kind: str, text: str) -> None:
        # Some tests are about a hub that is gone or refuses: Chromium logs each such request.
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.problems.append(text)
