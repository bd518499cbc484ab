"""What happened: the ledger of who held what, and figures over time."""
