"""Queries over the history: stored rows merged with what is still open."""
