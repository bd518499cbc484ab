"""The live state of many nodes, shared by the hub and by commands that run without one."""
