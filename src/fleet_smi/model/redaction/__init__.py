"""Redaction of likely secrets in command lines; `redact.py` is where to start."""
