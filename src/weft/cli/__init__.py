"""The `weft` command: one file per subcommand, and what goes to a terminal or a pipe."""
