"""Immutable data types, and pure functions on them: snapshots, verdicts, selection."""
