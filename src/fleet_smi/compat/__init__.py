"""Compatibility with older systems, one folder each; only the registries name it."""
