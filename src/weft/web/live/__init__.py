"""The state of the scheduler as the page last saw it: rows of jobs, GPUs and nodes, samples of the last hours."""
