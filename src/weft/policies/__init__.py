"""Who goes first: one file per policy, one page each."""
