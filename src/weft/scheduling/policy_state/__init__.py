"""The state of policies, computed from facts so that a replay restores it."""
