"""Fixtures for tests of other systems together with real hubs and agents."""

from tests.end_to_end.conftest import lab

__all__ = ["lab"]
