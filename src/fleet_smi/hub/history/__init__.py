"""What happened: the ledger of who held what, and figures over time."""

import os

# What is multiplied here is small: threads for it would only take room, on every core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
