"""Screens as text, one module per command: pure functions from views to lines."""
