"""Helpers of tests: builders, real schedulers and clusters in temporary folders, and checks."""
