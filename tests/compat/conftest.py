"""Fixtures for tests of other systems beside whole hubs and agents."""

from tests.end_to_end.conftest import lab

__all__ = ["lab"]
