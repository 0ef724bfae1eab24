"""Simulated clusters: reading their descriptions, and which jobs of a trace they can hold."""
