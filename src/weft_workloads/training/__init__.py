"""Training: tasks, the parallel forms, checkpoints, and the loop that joins them."""
