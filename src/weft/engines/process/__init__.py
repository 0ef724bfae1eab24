"""Runs on one machine: starts commands, outlives the scheduler with them, and watches the GPUs.

Nothing is imported here: the starter must stay small, because every run begins as a copy of it.
"""
