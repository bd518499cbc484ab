"""gpustat and gpustat-web: their text and JSON, read and written."""
