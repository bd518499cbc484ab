"""The node's ends of the ways to a hub, one a file; this is the list of them."""

OUTLETS: tuple[str, ...] = ("push", "serve", "file", "stdout", "cluster_smi")
