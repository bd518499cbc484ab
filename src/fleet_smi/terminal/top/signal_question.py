"""The question before a signal: which process is meant, and why none can be sent."""

from fleet_smi.errors import Unmet
from fleet_smi.model.fleet import NodeView
from fleet_smi.terminal.top.process_pane import row_key
from fleet_smi.terminal.top.requests import Question, SendSignal, SignalName
from fleet_smi.terminal.top.state import ScreenState
from fleet_smi.terminal.top.view.process_table import ProcessRow

_VERBS: dict[SignalName, str] = {"TERM": "Terminate", "KILL": "Kill"}
_MAX_COMMAND = 40


def signal_question(
    state: ScreenState, node: NodeView | None, rows: tuple[ProcessRow, ...], name: SignalName
) -> Question:
    """Return the question; raise `Unmet` where no process can be meant."""
    if node is None or not rows:
        raise Unmet("no process is chosen")
    if state.at is not None:
        raise Unmet("this is the past: press l, then choose a process")
    if state.pane != "processes":
        raise Unmet("choose a process first: Tab, then the arrow keys")
    keys = [row_key(row) for row in rows]
    process = rows[keys.index(state.process_key) if state.process_key in keys else 0].process
    if process.pid_is_made or process.hidden:
        raise Unmet("nothing is known of this process but its GPU memory")
    what = (process.command or process.name or "?")[:_MAX_COMMAND]
    return Question(
        f"{_VERBS[name]} {process.pid} ({what}) of {process.user or '?'} on {node.name}?",
        SendSignal(
            signal=name,
            node_id=node.node_id,
            pid=process.pid,
            started_at=process.started_at,
            user=process.user,
            uid=process.uid,
        ),
    )
