"""One file per command: `configure(parser)` adds its arguments, `run(args)` runs it and returns the exit code."""
