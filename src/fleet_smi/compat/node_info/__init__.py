"""gpu-cluster-monitor: its node_info API as source and as routes."""
