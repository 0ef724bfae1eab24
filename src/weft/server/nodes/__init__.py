"""The nodes of a cluster as their agents report them: registry, runs, streams. Registry and reconciler are pure."""
