"""Codec of gpustat 0.3 to 1.x and of gpustat-web: text and `--json`, decoded and encoded. Pure.

A host is identified by the name of its file. In a text of several hosts, as gpustat-web prints it,
each is identified by its own header, and a host that did not answer is an `Unreachable`.
"""

from collections.abc import Callable, Sequence

import msgspec

from fleet_smi.compat.gpustat.decode_text import decode_text
from fleet_smi.compat.gpustat.encode_text import GpustatOptions, node_lines
from fleet_smi.compat.gpustat.json_codec import (
    ERRORS_KEY,
    decode_json,
    failed_runs_to_json,
    gpu_to_json,
)
from fleet_smi.errors import EmptyReport, TruncatedReport, Unreachable
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import format_duration

__all__ = ["GpustatOptions", "decode_gpustat", "fleet_text", "node_json", "node_text", "nodes_json"]

_INDENT = 4
_EMPTY_HINT = "gpustat is just writing it, or failed there"


def decode_gpustat(body: bytes, host: str, taken_at: float) -> tuple[Snapshot | Unreachable, ...]:
    """Decode the output of gpustat on `host`, text or JSON; raise `Undecodable`.

    The time in the output has no zone, so the caller passes `taken_at`.
    """
    if not body.strip():
        raise EmptyReport(f"is empty: {_EMPTY_HINT}")
    # A file that has been extended but not yet written to reads as NUL bytes.
    if b"\0" in body:
        raise TruncatedReport("contains NUL bytes: it is being written, or its disk was full")
    host = sanitize_text(host, 128) or "unnamed"
    # By the content: the name of a file does not say which of the two it holds.
    if body.lstrip()[:1] in (b"{", b"[") and not _is_gpu_line(body):
        return decode_json(body, host, taken_at)
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    return decode_text(text, host, taken_at)


def node_text(node: NodeView | Snapshot, timestamp: str, options: GpustatOptions) -> str:
    """Encode a node as gpustat prints it, with `timestamp` in the header."""
    return "".join(f"{line}\n" for line in node_lines(node, timestamp, options))


def fleet_text(
    view: FleetView, timestamp_of: Callable[[NodeView], str], options: GpustatOptions
) -> str:
    """Encode one node after the other; a silent one as an error line of gpustat-web."""
    return "".join(
        # Without blanks: the decoder reads the name up to the first one.
        f"({sanitize_text(node.name, 128).replace(' ', '_')}) {_silence_reason(node)}\n"
        if node.silent
        else node_text(node, timestamp_of(node), options)
        for node in view.nodes
    )


def node_json(node: NodeView | Snapshot, timestamp: str) -> bytes:
    """Encode a node as `gpustat --json` does; `timestamp` is ISO, local, without a zone."""
    return nodes_json([(node, timestamp)])


def nodes_json(nodes: Sequence[tuple[NodeView | Snapshot, str]]) -> bytes:
    """Encode several nodes as a list, or one node as an object."""
    documents = [
        {
            "hostname": node.name,
            "driver_version": node.host.driver_version,
            "query_time": timestamp,
            "gpus": [gpu_to_json(gpu) for gpu in node.gpus],
            # Without the key as a rule: it is not one of gpustat's.
            **({ERRORS_KEY: errors} if (errors := failed_runs_to_json(node.runs)) else {}),
        }
        for node, timestamp in nodes
    ]
    value = documents[0] if len(documents) == 1 else documents
    return msgspec.json.format(msgspec.json.encode(value), indent=_INDENT) + b"\n"


def _is_gpu_line(body: bytes) -> bool:
    """Whether the text starts with `[0]`, a GPU without a header, and not with a JSON list."""
    head = body.lstrip()[:8]
    return head[:1] == b"[" and head[1:2].isdigit() and b"] " in head


def _silence_reason(node: NodeView) -> str:
    trouble = sanitize_text(node.trouble or "", 300)
    if node.age_seconds is None:
        return trouble or "never reported"
    message = f"silent for {format_duration(node.age_seconds)}"
    return f"{message}: {trouble}" if trouble else message
