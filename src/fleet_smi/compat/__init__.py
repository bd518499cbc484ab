"""Compatibility with older GPU monitors, one package each; imported only through registries."""
