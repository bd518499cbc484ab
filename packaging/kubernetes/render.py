"""Renders the chart as plain manifests: `python packaging/kubernetes/render.py`.

They are what `helm template` makes of the chart's default values, without Helm's own labels, and
with a join token that is made with kubectl.
"""

import re
from pathlib import Path
from typing import Any

from helm_python import Chart

FOLDER = Path(__file__).parent
CHART = FOLDER.parent / "helm/fleet-smi"
MANIFESTS = FOLDER / "fleet-smi.yaml"
NAME = "fleet-smi"
HEAD = """\
# Made from the chart in packaging/helm by packaging/kubernetes/render.py: change that.
# docs/kubernetes.md says how to apply them.
"""
NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: fleet-smi
  labels:
    # The agent needs hostPID, and folders of the host.
    pod-security.kubernetes.io/enforce: privileged
"""
_OF_HELM = re.compile(r"^ *(helm\.sh/|app\.kubernetes\.io/managed-by:).*\n", re.MULTILINE)
_EMPTY_ANNOTATIONS = re.compile(r"^ *annotations:\n *# The history outlives.*\n", re.MULTILINE)


def render(values: dict[str, Any] | None = None) -> dict[str, str]:
    """The manifests of the chart with these values, by file; raise `HelmError`."""
    with Chart.load(CHART) as chart:
        chart.validate_schema(values)
        made = chart.render(values, name=NAME, namespace=NAME)
    return {Path(file).name: text for file, text in made.items() if text.strip()}


def plain_manifests() -> str:
    """The text of the file with all plain manifests."""
    made = render({"joinToken": {"existingSecret": f"{NAME}-join"}})
    documents = [text for file, text in sorted(made.items()) if file.endswith(".yaml")]
    text = "---\n".join(f"{document.strip()}\n" for document in (NAMESPACE, *documents))
    return HEAD + _EMPTY_ANNOTATIONS.sub("", _OF_HELM.sub("", text))


if __name__ == "__main__":
    MANIFESTS.write_text(plain_manifests())
