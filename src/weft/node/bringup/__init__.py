"""Starts and ends the processes of a cluster, on loopback or over ssh, and records them in a file."""
