"""The command line: one module per command; the only package that may import all others."""
