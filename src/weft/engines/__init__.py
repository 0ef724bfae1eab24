"""Engines: what executes runs on a node."""
