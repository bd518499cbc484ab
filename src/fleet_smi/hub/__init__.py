"""The hub: receives snapshots of all nodes, holds the fleet's state, and publishes its changes."""
