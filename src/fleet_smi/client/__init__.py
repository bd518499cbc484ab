"""The hub from Python, over HTTP: light enough for an agent."""
