"""The `weft` command: one file per subcommand, and the output to a terminal or a pipe."""
