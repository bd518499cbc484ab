"""The ancestors' own commands, one a file, over any fleet: for fingers that know them.

A file has `HELP`, `EXAMPLES`, `add_arguments(parser)` with the ancestor's own flags, and
`run(args)`; the flags that choose a fleet are added for it.
"""

COMPAT_COMMANDS = {
    "cluster-smi": "fleet_smi.compat.cluster_smi.command",
    "gpustat": "fleet_smi.compat.gpustat.command",
    "nvgpu": "fleet_smi.compat.nvgpu.command",
}
"""Every ancestor that has a command, and the file that stands in for it."""
