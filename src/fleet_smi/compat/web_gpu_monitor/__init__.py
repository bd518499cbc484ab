"""web-gpu-monitor: its load_data.csv and its settings."""
