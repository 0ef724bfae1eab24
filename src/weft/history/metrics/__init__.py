"""Figures from facts: one pass over a journal, simulated or live."""
