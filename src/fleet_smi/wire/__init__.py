"""Codecs and parsers: every format that leaves or enters the process, from and to the model."""
