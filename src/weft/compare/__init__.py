"""Runs many simulations: one workload under several policies and seeds, each trial in its own process."""
