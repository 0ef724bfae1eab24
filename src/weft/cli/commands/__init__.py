"""One file per command: `configure(parser)` says what it takes, `run(args)` does it and returns the exit code."""
