"""gpustat and gpustat-web: codec of their text and JSON, command, routes and settings."""
