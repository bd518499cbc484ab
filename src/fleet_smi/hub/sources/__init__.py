"""The hub's ends of the ways in which nodes are heard, one a file; this is the list of them."""

SOURCES: tuple[str, ...] = (
    "push",
    "pull",
    "files",
    "ssh",
    "self",
    "nvgpu",
    "node_info",
    "cluster-smi",
)
