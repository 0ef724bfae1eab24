"""The scheduler's end of the agents: nodes, their runs and their streams. Registry and reconciler are pure."""
