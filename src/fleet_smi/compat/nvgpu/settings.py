"""Settings import of an nvgpu master's AGENTS file: Python, parsed but never executed."""

import ast
import re
import warnings
from typing import Any

from fleet_smi.config.importer import SettingsImporter
from fleet_smi.errors import UsageError

SYSTEM_NAME = "nvgpu"
_SELF = "self"
_NOT_RUN = "it is code, which is not executed"


def matches(name: str, text: str) -> bool:
    """Whether the text assigns AGENTS."""
    return re.search(r"^AGENTS\s*(?::[^=\n]+)?=", text, re.MULTILINE) is not None


def import_file(text: str, importer: SettingsImporter) -> None:
    """Import each agent as one to poll, and 'self' as the hub's own machine."""
    agents: Any = ()
    # As when the file is run, the last assignment counts.
    for statement in _parse(text).body:
        value = _assigned_agents(statement)
        if value is not None:
            agents = _literal(value, importer)
        elif not _is_docstring(statement):
            importer.skip(f"line {statement.lineno}", _NOT_RUN)
    names = [agent for agent in agents if isinstance(agent, str)]
    if len(names) < len(agents):
        importer.skip("AGENTS", f"{len(agents) - len(names)} of them are not text")
    if _SELF in names:
        importer.set_value("'self'", "hub.include_self", True)  # noqa: FBT003
    importer.extend_list("AGENTS", "hub.nvgpu", [name for name in names if name != _SELF])


def _parse(text: str) -> ast.Module:
    try:
        # Python warns about odd literals in the user's file, which is not ours to report.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"the AGENTS file of nvgpu is not Python: {error}") from None


def _assigned_agents(statement: ast.stmt) -> ast.expr | None:
    """Return the expression that this statement assigns to AGENTS, if it does."""
    if isinstance(statement, ast.Assign):
        names = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        names = [statement.target]
    else:
        return None
    is_agents = any(isinstance(name, ast.Name) and name.id == "AGENTS" for name in names)
    return statement.value if is_agents else None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _literal(value: ast.expr, importer: SettingsImporter) -> Any:
    try:
        agents = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        importer.skip("AGENTS", "it is computed, and code is not executed: write the list out")
        return ()
    if isinstance(agents, list | tuple):
        if not agents:
            importer.note_no_change("AGENTS", "it is empty: this master polls nobody")
        return agents
    importer.skip("AGENTS", "it is not a list")
    return ()
