"""History: the ledger of who held which GPU when, and the figures over time."""

import os

# The matrices here are small: BLAS threads would only take memory, once per core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
