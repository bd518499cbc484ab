"""A simulated fleet over the real wire, for the demo and for load tests."""
