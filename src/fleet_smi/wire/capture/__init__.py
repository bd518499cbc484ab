"""Captures: what one machine's drivers and tools say, scrubbed, as one file to send and replay."""
