"""On which nodes: one file per placement."""
