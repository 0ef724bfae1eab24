"""Placements, which choose the nodes of a job: one file each."""
