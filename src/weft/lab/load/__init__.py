"""Sends requests to a service at given times, and measures how long the answers take: `weft load`."""
