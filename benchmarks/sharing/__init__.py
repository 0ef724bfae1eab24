"""A training job and an inference server on one core, timed on a clock that other processes cannot disturb."""
