"""Bindings: the only code that touches the machine; a `read` per subject returns plain values.

They run in a worker of the reader (`node/reader.py`) and import neither the model nor any library
that it needs, because every command pays for their import time. `drm`, `drm_clients`, `nvml_*` and
`program` are parts of bindings; `systemd` only runs commands.
"""
