"""The queue, pure: who waits for GPUs, in which order, why, and until when that may take."""
