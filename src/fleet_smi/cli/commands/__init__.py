"""The commands, one module each: `HELP`, `EXAMPLES`, `add_arguments()`, `run(args) -> exit code`."""
