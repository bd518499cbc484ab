"""A fleet that does not exist: for demonstrations, and as a load over the real wire."""
