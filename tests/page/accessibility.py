"""Accessibility violations of a page, found by axe."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

BLOCKING_IMPACTS = ("serious", "critical")


def accessibility_violations(page: Page, selector: str | None = None) -> list[str]:
    """Return the serious and critical violations on the page, or in a part of it."""
    found: list[dict[str, Any]] = Axe().run(page, selector).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found
        if one["impact"] in BLOCKING_IMPACTS
        for node in one["nodes"]
    ]
