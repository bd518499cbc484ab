"""A simulated NVIDIA driver: `libnvidia-ml.so.1` and `nvidia-smi`, driven by a scenario file."""
