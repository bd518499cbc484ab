"""The only files that touch the machine; each has a `read` that returns plain values.

They run in the reader (see `node/reader_process.py`), so they know neither the model
nor any library it needs: what they cost to import is what every command pays.
"""
