"""Earliest deadline first, for Weft."""
