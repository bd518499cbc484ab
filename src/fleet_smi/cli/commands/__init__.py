"""One command a file: its help line, examples, arguments, and `run(args) -> exit code`."""
