"""The line above a screen that shows the past: of when it is, and who was heard then."""

from fleet_smi.model.fleet import FleetView
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view.words import DOT, Local, counted, duration, local_time, moment


def banner(
    view: FleetView, columns: int, paint: Paint, *, now: float, local: Local = local_time
) -> str:
    """One line, ending in a newline, and an empty one."""
    at, summary = view.taken_at, view.summary
    were = "was" if summary.nodes == 1 else "were"
    when = f"{local(at):%Y-%m-%d %H:%M:%S}"
    heard = f"{summary.nodes_reporting} of {counted(summary.nodes, 'node')} {were} reporting"
    more = DOT.join([when, f"{duration(now - at)} ago", heard])
    return (
        paint.line([(f"As of {moment(at, now, local)}", "title"), (DOT + more, "dim")], columns)
        + "\n\n"
    )
