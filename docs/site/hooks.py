"""Hooks of mkdocs: navigation from the index, generated pages, links that leave the docs folder.

Pages are written to be read in the repository as well: a link there may lead to a file beside
`docs/`. On the site, such files are pages or downloads of their own; a link to any other file of
the repository becomes plain text.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))
from docs.site.navigation import sections  # noqa: E402  # the project is no installed package
from docs.site.reference import api_page, settings_page  # noqa: E402

ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
GENERATED = {"api.md": api_page, "settings-table.md": settings_page}
DOWNLOADS = "monitoring"
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def github_slug(text: str, separator: str) -> str:
    """The anchor of a heading as forges make it, so that one link works in both places."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index, and add the generated pages to the reference."""
    index = (Path(config.docs_dir) / "index.md").read_text(encoding="utf-8")
    nav: list[Any] = [{"Home": "index.md"}, *sections(index)]
    by_title = {title: pages for group in nav for title, pages in group.items()}
    by_title["Reference"] += [{"API reference": "api.md"}, {"All settings": "settings-table.md"}]
    by_title["Project"] = [
        {"Architecture": "architecture.md"},
        {"Contributing": "contributing.md"},
        {"Changes": "changes.md"},
    ]
    nav.append({"Project": by_title["Project"]})
    config.nav = nav
    config.mdx_configs["toc"]["slugify"] = github_slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from code or lie beside `docs/`, and the downloads."""
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for source, name in ROOT_PAGES.items():
        text = (PROJECT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=rewrite_links(text, source, name)))
    for path in sorted((PROJECT / DOWNLOADS).rglob("*")):
        if path.suffix in (".json", ".yml"):
            target = str(path.relative_to(PROJECT))
            files.append(File.generated(config, target, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page of `docs/` that lead out of it."""
    if page.file.abs_src_path is None or page.file.generated_by:
        return markdown
    return rewrite_links(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def rewrite_links(markdown: str, source: str, page: str) -> str:
    """Return a text whose links from `source`, in the repository, fit `page`, on the site."""

    def rewrite(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, mark, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = _site_path(place)
        if on_site is None:
            return text
        relative = posixpath.relpath(on_site, posixpath.dirname(page) or ".")
        return f"{picture}[{text}]({relative}{mark}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join(
        part if number % 2 else _LINK.sub(rewrite, part) for number, part in enumerate(parts)
    )


def _site_path(place: str) -> str | None:
    """Where a file of the repository is on the site; `None` if it is not there."""
    if place in ROOT_PAGES:
        return ROOT_PAGES[place]
    if place == "README.md":
        return "index.md"
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return place if place.startswith(f"{DOWNLOADS}/") else None
