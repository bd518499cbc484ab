"""The hub over HTTP."""
