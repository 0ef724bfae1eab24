"""Simulated clusters: readers of their descriptions, and the jobs of a trace that they can hold."""
