"""Metric export: the figures of the fleet, sent to a long-term store of series."""
