"""The queue of a hub: who waits for GPUs, kept in the database, offered in turn."""
