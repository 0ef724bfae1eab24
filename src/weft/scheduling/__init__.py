"""Decides, and knows no clock, no randomness, no input or output: the core, policies, placements, autoscalers."""
