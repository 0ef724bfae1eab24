"""From the order to decisions: which jobs to start, stop or promise GPUs to."""
