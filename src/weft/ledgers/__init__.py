"""Ledgers: what replanners remember of the past, folded from facts, so that a replay restores it."""
