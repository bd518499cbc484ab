"""Every format that leaves a process: pure bytes and text, from and to the model."""
