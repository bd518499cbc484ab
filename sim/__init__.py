"""A simulated NVIDIA driver: `libnvidia-ml.so.1` and `nvidia-smi`, played from a scenario file."""
