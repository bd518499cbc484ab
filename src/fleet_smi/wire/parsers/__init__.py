"""Parsers of what nvidia-smi, amd-smi, rocm-smi, xpu-smi and the kernel print; all pure."""
