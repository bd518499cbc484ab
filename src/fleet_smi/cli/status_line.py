"""`fleet-smi --format '{free}/{total}'`: one line of numbers, for prompts and status lines."""

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import FleetError, UsageError
from fleet_smi.model.fleet import STATES

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.fleet_summary import FleetSummary

FIELDS = (
    "total",
    *STATES,
    "instances",
    "nodes",
    "silent",
    "mine",
    "mine_idle",
    "first_free",
    "place",
)
"""The fields of a template; docs/commands.md describes each."""
UNKNOWN = "-"
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SPEC = re.compile(r"(?:([^{}]?)([<>^]))?([0-9]{0,2})")
# A prompt must not hang: the rest of the commands wait longer for a hub.
_HUB_TIMEOUT_SECONDS = 2.0
_PAD = {"<": str.ljust, ">": str.rjust, "^": str.center}


class _Field(NamedTuple):
    """A field of the line, with its width and alignment."""

    name: str
    fill: str = " "
    align: str = ">"
    width: int = 0

    def format(self, value: object) -> str:
        """Return the value, padded."""
        return _PAD[self.align](UNKNOWN if value is None else str(value), self.width, self.fill)


Line = list[str | _Field]


def parse_line(template: str) -> Line:
    """Parse a template like "{free}/{total}"; raise `UsageError` for what it cannot have.

    Only names, widths and alignments: Python's own formatting would reach attributes.
    """
    parts: Line = []
    at = 0
    for token in _TOKEN.finditer(template):
        parts.append(template[at : token.start()])
        at = token.end()
        if token[0] in ("{{", "}}"):
            parts.append(token[0][0])
        elif token[1] is None:
            raise UsageError(f"--format: a lone {token[0]}: write it twice to print one")
        else:
            parts.append(_field(token[1]))
    parts.append(template[at:])
    return parts


def _field(text: str) -> _Field:
    name, _, spec = text.partition(":")
    if name not in FIELDS:
        raise UsageError(f"--format: unknown field {{{name}}}: there are {', '.join(FIELDS)}")
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise UsageError(f"--format: {{{text}}}: after the colon only a width, like {{free:>3}}")
    return _Field(name, found[1] or " ", found[2] or ">", int(found[3] or 0))


def run(args: argparse.Namespace) -> int:
    """Print the line, once or every interval; where that fails, a dash for each number."""
    line = parse_line(args.format)
    fleet = fleet_source.select_fleet(args, own_hub=True, quiet=True)
    if args.interval is not None:
        # A bar keeps its command for days: a hub that is away comes back.
        output.repeat(args.interval, lambda: _text_or_dashes(args, line, fleet), interactive=False)
        return 0
    try:
        text = _text(args, line, fleet)
    except FleetError:
        _print(_render(line, {}))
        raise
    _print(text)
    return 0


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _text_or_dashes(args: argparse.Namespace, line: Line, fleet: fleet_source.FleetSource) -> str:
    try:
        return _text(args, line, fleet)
    except FleetError:
        return _render(line, {})


def _text(args: argparse.Namespace, line: Line, fleet: fleet_source.FleetSource) -> str:
    names = {part.name for part in line if isinstance(part, _Field)}
    view = None
    if isinstance(fleet, fleet_source.HubFleet):
        fleet.client.limit_wait(_HUB_TIMEOUT_SECONDS)
        summary = _hub_summary(args, fleet, names)
    else:
        from fleet_smi.model.fleet_summary import summarize_view

        view = _selected(args, fleet)
        # Before anything is printed: that no machine answers must not look like no free GPU.
        fleet_source.require_answer(fleet)
        summary = summarize_view(view, _user() if "mine" in " ".join(names) else None)
    values = _values(summary)
    if "first_free" in names:
        values["first_free"] = _first_free(fleet, view)
    if "place" in names and isinstance(fleet, fleet_source.HubFleet):
        values["place"] = _place(fleet)
    return _render(line, values)


def _render(line: Line, values: dict[str, object]) -> str:
    parts = [
        part.format(values.get(part.name)) if isinstance(part, _Field) else part for part in line
    ]
    return "".join(parts) + "\n"


def _values(found: "FleetSummary") -> dict[str, object]:
    counts = found.summary
    return {
        "total": counts.gpus,
        **{state: getattr(counts, state) for state in STATES},
        "instances": counts.free_instances,
        "nodes": counts.nodes,
        "silent": counts.nodes - counts.nodes_reporting,
        "mine": found.mine,
        "mine_idle": found.mine_idle,
    }


def _is_filtered(args: argparse.Namespace) -> bool:
    return bool(
        args.user or args.node or args.state is not None or args.filter is not None or args.at
    )


def _hub_summary(
    args: argparse.Namespace, fleet: fleet_source.HubFleet, names: set[str]
) -> "FleetSummary":
    if _is_filtered(args):
        from fleet_smi.cli.hub_filters import hub_filters
        from fleet_smi.model.fleet_summary import summarize_view

        filters, rest = hub_filters(args)
        return summarize_view(_counted(rest.apply(fleet.selected(**filters))), _user())
    from fleet_smi.client.summaries import fetch_summary

    found = fetch_summary(fleet.client, None)
    if found.mine is None and names & {"mine", "mine_idle"}:
        # A token that several share names nobody: then the user of this machine is meant.
        found = fetch_summary(fleet.client, _user())
    return found


def _selected(args: argparse.Namespace, fleet: fleet_source.FleetSource) -> "FleetView":
    if not _is_filtered(args):
        return fleet.view(args.interval)
    from fleet_smi.cli.commands.status import view_options

    return _counted(view_options(args).apply(fleet.view(args.interval)))


def _counted(view: "FleetView") -> "FleetView":
    """Return a selection with its own summary instead of that of the whole fleet."""
    from msgspec.structs import replace

    from fleet_smi.model.views import summarize_nodes

    return replace(view, summary=summarize_nodes(view.nodes))


def _first_free(fleet: fleet_source.FleetSource, view: "FleetView | None") -> str | None:
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.model.select import find_offer

    request = GpuRequest(count=1)
    if isinstance(fleet, fleet_source.HubFleet):
        offered = fleet.offers(request, explain=False).offered
        return offered[0].label if offered else None
    found = () if view is None else find_offer(view, request, fleet.thresholds).offered
    if not found:
        return None
    return found[0].label.partition(":")[2] if fleet.is_local else found[0].label


def _place(fleet: fleet_source.HubFleet) -> object:
    """Return the best place of this person in the queue."""
    own = [row for row in fleet.client.queue().rows if row.own]
    if any(row.offer is not None for row in own):
        return "offered"
    return min((row.place for row in own if row.place is not None), default=None)


def _user() -> str:
    from fleet_smi.paths import user_name

    return user_name(os.getuid())
