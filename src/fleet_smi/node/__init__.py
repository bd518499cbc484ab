"""What runs on a GPU machine."""
