"""The order of waiting and running jobs, kept sorted as facts come in."""
