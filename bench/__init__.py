"""Benchmarks of fleet-smi and its peers in one run: `make bench`."""
