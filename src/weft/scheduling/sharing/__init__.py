"""GPUs that instances share by request, limit and memory: demands, the ledger, moves, the port of placements (pure)."""
