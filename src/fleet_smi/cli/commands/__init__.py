"""The commands, one module each: `HELP`, `EXAMPLES`, `add_arguments()` and `run(args)`."""
