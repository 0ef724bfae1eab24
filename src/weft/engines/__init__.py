"""Engines: they execute runs on a node."""
