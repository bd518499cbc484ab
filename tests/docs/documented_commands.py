"""The commands of the documentation, and what a test does with each.

Every line of an `sh` or `console` block, and every `bash` block as a whole, is run in the world of
`tests/docs/world.py`, unless it belongs to one of the classes below, each with its reason. A call
of fleet-smi that is not run is at least parsed by its real parser.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tests.docs.pages import PAGES, PROJECT

Treatment = Literal["run", "serve", "parse"]
_BLOCK = re.compile(r"^```(sh|console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#\s.*$")
_CONTINUED = re.compile(r"\\\n\s*")

# In this order; the first that matches decides. What none matches is run.
NOT_RUN: dict[str, str] = {
    r"^(echo \S+ \| )?sudo (?!fleet-smi hub (token (add|list)|join-command))": (
        "needs root on the reader's machine"
    ),
    r"\| *(sudo +)?(ba)?sh\b|/install\b": "installs on this machine: run by tests/install",
    r"^make ": "is what CI runs",
    r"^FLEET_SMI_UPDATE_GOLDEN=1 make": "is what CI runs",
    r"(^| )(pipx?|uvx?|/opt/fleet-smi/bin/pip) ": "installs: run by tests/install",
    r"^echo .* > packaging/": "makes a secret of the reader's own",
    r"^(docker|podman|buildah|kubectl|helm|kind|ansible\S*|apt|apt-get|dpkg\S*|scp) ": (
        "needs a container engine, a cluster or another machine, with tests of their own"
    ),
    r"^(sha256sum|gpg|cosign|git|gh) ": "needs a release, or a repository of the reader",
    r"docs/images/make": "rewrites a picture of the documentation, which a test compares",
    r"fleet-smi( \S+)*? top\b": "needs a terminal: run by tests/terminal/top",
    r"fleet-smi migrate |--config (\./)?fleet-smi\.toml": "reads old settings: run by tests/compat",
    r"like cluster-smi --here|--cluster-smi |alias ": "changes the shell, or needs an old router",
    r"--notify|--then": "notifies the reader, or logs in to a node: run by tests/cli",
    r"run --on ": "logs in to a node: run by tests/end_to_end",
    r"docker run": "needs Docker",
    r"ssh trust": "asks about host keys: run by tests/cli/test_ssh_trust.py",
    r"fleet-smi login(?!.*--token-file)|user add": "asks for a password",
    r"https://hub\d?:": "needs several hubs: run by tests/hub/cluster",
    r"\b(3f9a02bc|3f9a1c20|3f2a91bc|4711)\b|jobs (attach|cancel)": "names what only the reader has",
    r"--fingerprint sha256:…": "has a fingerprint that is left out",
    r"fleet-smi (claim|release)\b": "needs a process or a lease of the reader: run by tests/cli",
    r"fleet-smi mcp": "speaks to an assistant over its standard input",
    r"fleet-smi (join|agent upgrade)|hub wheelhouse": "installs on other machines: tests/install",
}
SERVES = re.compile(
    r"fleet-smi (up|hub|agent|demo)\b(?!.*(--once| token | user | join-command|--stdout))"
    r"|fleet-smi( \S+)* -i \d|render .*--every"
)
"""What runs until it is stopped."""


class DocumentedCommand(NamedTuple):
    """One command, where it is written, and why it is not run, if it is not."""

    page: str
    text: str
    treatment: Treatment
    reason: str = ""


def documented_blocks() -> Iterator[tuple[str, list[DocumentedCommand]]]:
    """Yield every block of commands with its name, in the order of the pages.

    What is written several times is run where it is first.
    """
    seen: set[str] = set()
    for path in PAGES:
        page = str(path.relative_to(PROJECT))
        found = enumerate(_BLOCK.findall(path.read_text(encoding="utf-8")), 1)
        for number, (language, body) in found:
            lines = [body] if language == "bash" else _CONTINUED.sub(" ", body).splitlines()
            commands = [_COMMENT.sub("", line).removeprefix("$ ").strip() for line in lines]
            yield f"{page}-{number}", [_classify(page, text, seen) for text in commands if text]


def _classify(page: str, text: str, seen: set[str]) -> DocumentedCommand:
    if text in seen:
        return DocumentedCommand(page, text, "parse", "is written above")
    seen.add(text)
    if page.startswith("docs/from/"):
        return DocumentedCommand(page, text, "parse", "run by tests/compat")
    for pattern, reason in NOT_RUN.items():
        if re.search(pattern, text):
            return DocumentedCommand(page, text, "parse", reason)
    return DocumentedCommand(page, text, "serve" if SERVES.search(text) else "run")
