"""Accessibility violations of a page, found by axe."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

BLOCKING_IMPACTS = ("serious", "critical")


_ONLY_CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


def accessibility_violations(page: Page, selector: str | None = None) -> list[str]:
    """Return the serious and critical violations on the page, or in a part of it, in any theme."""
    page.emulate_media(color_scheme="dark")
    dark = _violations(page, selector, _ONLY_CONTRAST)  # the other rules do not depend on it
    page.emulate_media(color_scheme="light")
    return [f"dark: {one}" for one in dark] + _violations(page, selector, {})


def _violations(page: Page, selector: str | None, options: dict[str, Any]) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page, selector, options).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found
        if one["impact"] in BLOCKING_IMPACTS
        for node in one["nodes"]
    ]
