"""cluster-smi: its ZeroMQ messages, node port, router client, tables and settings."""
