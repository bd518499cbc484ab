"""Screens as text: values in, lines out; they arrange and never judge."""
