"""Problems of the hub itself, and the senders that it refuses: each with a cause and a remedy."""

from typing import Literal

from msgspec import Struct

from fleet_smi.model.fleet import NodeView, Summary

ProblemKind = Literal["disk", "history", "nodes", "credentials", "remote_write", "otlp", "cluster"]


class HubProblem(Struct, frozen=True, kw_only=True):
    """Something that the hub cannot do now; `detail` is the error, `since` is by its clock."""

    kind: ProblemKind
    message: str
    detail: str
    remedy: str
    since: float


class RefusedSender(Struct, frozen=True, kw_only=True):
    """A machine whose reports, or attempts to join, are refused.

    `node_id` and `name` are `None` where its credential does not say who it is.
    """

    address: str
    node_id: str | None
    name: str | None
    reason: str
    remedy: str
    attempts: int
    last_at: float


class Problems(Struct, frozen=True, kw_only=True):
    """What is wrong with a hub, and whom it refuses."""

    problems: tuple[HubProblem, ...] = ()
    refused: tuple[RefusedSender, ...] = ()


class NodesView(Struct, frozen=True, kw_only=True):
    """Every node, the problems of the hub, and the senders that it refuses."""

    taken_at: float
    summary: Summary
    nodes: tuple[NodeView, ...]
    problems: tuple[HubProblem, ...] = ()
    refused: tuple[RefusedSender, ...] = ()
