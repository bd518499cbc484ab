"""gpu-cluster-monitor: its node_info HTTP API as source and as routes, and its list of hosts."""
