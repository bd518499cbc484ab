"""Registry of outlets, the node's end of each transport: what `fleet-smi agent` is wired from.

An outlet is one module with `create_outlet(target, options)`, where `target` is the value
of its option: a URL, an address, a folder. It is imported only when a flag or a setting selects
it: an agent that pushes does not pay for the memory of an HTTP server.
"""

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.config.settings import AgentSettings
    from fleet_smi.node.agent import Outlet


class OutletEntry(NamedTuple):
    """One outlet: its module, and the flag and setting that switch it on."""

    name: str
    module: str
    option: str
    """`to` is the flag `--to` and, where there is such a setting, `agent.to`."""
    metavar: str | None
    """What the flag takes; `None` for a flag without a value."""
    help: str

    @property
    def flag(self) -> str:
        return f"--{self.option.replace('_', '-')}"


class OutletOptions(NamedTuple):
    """Arguments of an outlet: the settings, and options that only flags can set."""

    settings: "AgentSettings"
    insecure_open: bool = False


OUTLETS: tuple[OutletEntry, ...] = (
    OutletEntry(
        "push",
        "fleet_smi.node.outlets.push",
        "to",
        "URL,…",
        "send to this hub, or to one of these; samples are buffered while none is reachable",
    ),
    OutletEntry(
        "serve",
        "fleet_smi.node.outlets.serve",
        "serve",
        "[HOST]:PORT",
        "let a hub fetch the latest report",
    ),
    OutletEntry(
        "file",
        "fleet_smi.node.outlets.file",
        "drop",
        "DIR",
        "keep one small file in this shared folder",
    ),
    OutletEntry(
        "cluster_smi",
        "fleet_smi.compat.cluster_smi.outlet",
        "cluster_smi",
        "HOST:PORT",
        "send to a router of cluster-smi, usually at port 9080",
    ),
    OutletEntry(
        "stdout",
        "fleet_smi.node.outlets.stdout",
        "stdout",
        None,
        "print each report as one line of JSON",
    ),
)


def build_outlets(options: OutletOptions, requested: Collection[str]) -> "list[Outlet]":
    """Make the outlets whose flags were given or, without any such flag, those of the settings.

    `requested` has the `option` of each flag that was given. Raise `UsageError` if there is none
    in either.
    """
    entries = [entry for entry in OUTLETS if entry.option in requested]
    if not entries:
        entries = [entry for entry in OUTLETS if getattr(options.settings, entry.option, None)]
    if not entries:
        flags = [entry.flag for entry in OUTLETS]
        raise UsageError(f"no destination: give {', '.join(flags[:-1])} or {flags[-1]}")
    return [_make_outlet(entry, options) for entry in entries]


def _make_outlet(entry: OutletEntry, options: OutletOptions) -> "Outlet":
    target = getattr(options.settings, entry.option, None)
    outlet: Outlet = import_module(entry.module).create_outlet(target, options)
    return outlet
