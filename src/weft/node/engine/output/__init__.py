"""The output of runs: their logs and the progress that they report."""
