"""The verdict on a GPU: what is free, and what only looks free. Rules in the order they run."""
