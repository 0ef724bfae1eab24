"""Uncertainty in a simulation: node failures, crashing runs, and wrong estimates of durations."""
