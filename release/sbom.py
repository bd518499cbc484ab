"""The software bill of materials: every package that fleet-smi can install or has in its page.

CycloneDX 1.6 as JSON, from the lock files, the metadata of the installed packages and the lock file
of the page. The same input gives the same document.
"""

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement

from release.lock import pinned_versions

PROJECT = Path(__file__).parents[1]
NAME = "fleet-smi"
_PAGE_LIBRARIES = ("clsx", "esm-env", "svelte", "uplot")
"""Packages of the page with code in it; the others only build it."""
_LICENCE_FILE_WORDS = 6  # a longer text in the field `License` is no name
Component = dict[str, Any]


def make_sbom(version: str) -> str:
    """The document for one version of fleet-smi."""
    required = set(pinned_versions("light"))
    python = [_python_component(name, name in required) for name in sorted(pinned_versions("all"))]
    page = [_page_component(name) for name in _PAGE_LIBRARIES]
    root = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{NAME}@{version}",
        "name": NAME,
        "version": version,
        "purl": f"pkg:pypi/{NAME}@{version}",
        "licenses": [{"license": {"id": "MIT"}}],
    }
    references = {each["name"]: str(each["bom-ref"]) for each in (*python, *page)}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [*python, *page],
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": sorted(references.values())},
            *(_dependencies(each, references) for each in python),
        ],
    }
    serial = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n"


def _python_component(name: str, is_required: bool) -> Component:
    return {
        **_component("pypi", name, pinned_versions("all")[name]),
        "scope": "required" if is_required else "optional",
        **_licences(_installed(name)),
    }


def _page_component(name: str) -> Component:
    lock = json.loads((PROJECT / "web/package-lock.json").read_text())
    package = lock["packages"][f"node_modules/{name}"]
    licence = {"licenses": [{"license": {"id": package["license"]}}]}
    return {**_component("npm", name, package["version"]), "scope": "required", **licence}


def _component(kind: str, name: str, version: str) -> Component:
    purl = f"pkg:{kind}/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _licences(package: Distribution | None) -> Component:
    """The licence as the package states it; nothing where it states none."""
    if package is None:
        return {}

    def field(name: str) -> list[str]:
        return package.metadata.get_all(name) or []

    if expression := field("License-Expression"):
        return {"licenses": [{"expression": expression[0]}]}
    licences = (line for line in field("Classifier") if line.startswith("License :: "))
    stated = (line for line in field("License") if len(line.split()) <= _LICENCE_FILE_WORDS)
    names = list(stated) or [line.rpartition(" :: ")[2] for line in licences]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def _dependencies(component: Component, references: dict[str, str]) -> Component:
    package = _installed(component["name"])
    wanted = map(Requirement, (package.requires if package else None) or ())
    names = {
        re.sub(r"[-_.]+", "-", each.name).lower()
        for each in wanted
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    needed = sorted(references[name] for name in names & references.keys())
    return {"ref": component["bom-ref"], "dependsOn": needed}


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
