"""What runs once, in the middle."""
