"""Typed answers, and their making from the state of a scheduler. Pure."""
