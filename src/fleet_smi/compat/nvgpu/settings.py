"""The AGENTS file of an nvgpu master: Python to nvgpu, which runs it; nothing but data here."""

import ast
import re
import warnings
from typing import Any

from fleet_smi.config.importer import SettingsImporter
from fleet_smi.errors import UsageError

SYSTEM_NAME = "nvgpu"
_SELF = "self"
_NOT_RUN = "it is code, and is not run here"


def matches(name: str, text: str) -> bool:
    """Whether it sets AGENTS."""
    return re.search(r"^AGENTS\s*(?::[^=\n]+)?=", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """Each agent becomes one to ask, and 'self' the hub's own machine."""
    agents: Any = ()
    for statement in _parsed(text).body:
        value = _agents(statement)
        if value is not None:
            agents = _literal(value, importer)
        elif not _is_remark(statement):
            importer.skip(f"line {statement.lineno}", _NOT_RUN)
    names = [agent for agent in agents if isinstance(agent, str)]
    if len(names) < len(agents):
        importer.skip("AGENTS", f"{len(agents) - len(names)} of them are no text")
    if _SELF in names:
        importer.set_value("'self'", "hub.include_self", True)  # noqa: FBT003
    importer.extend_list("AGENTS", "hub.nvgpu", [name for name in names if name != _SELF])


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"the AGENTS file of nvgpu is not Python: {error}") from None


def _agents(statement: ast.stmt) -> ast.expr | None:
    """What AGENTS is set to here, if it is."""
    if isinstance(statement, ast.Assign):
        names = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        names = [statement.target]
    else:
        return None
    ours = any(isinstance(name, ast.Name) and name.id == "AGENTS" for name in names)
    return statement.value if ours else None


def _is_remark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _literal(value: ast.expr, into: SettingsImporter) -> Any:
    try:
        agents = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        into.skip("AGENTS", "it is computed, and nothing is run here: write the list out")
        return ()
    if isinstance(agents, list | tuple):
        if not agents:
            into.note_no_change("AGENTS", "there is none: this master asks nobody")
        return agents
    into.skip("AGENTS", "it is no list")
    return ()
