"""What policies remember of the past, folded from facts so that a replay restores it."""
