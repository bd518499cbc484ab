"""nvgpu: its HTTP API as source and as routes, its commands and settings."""
