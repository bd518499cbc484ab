"""Many hubs as one fleet: shared state in PostgreSQL, live changes over NATS."""
