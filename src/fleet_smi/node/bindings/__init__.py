"""Bindings: the only code that touches the machine; each has a `read` that returns plain values.

They run in the reader (`node/reader_process.py`) and import neither the model nor any library
that it needs, because every command pays for their import time.
"""
