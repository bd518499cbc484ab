"""Figures over time: buffering, encoding and rolling up samples. Pure."""
