"""Decisions about services: which replicas there are, and on which GPUs. `weft.scheduling.scaling` says how many."""
