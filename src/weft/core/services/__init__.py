"""Decisions about services: which replicas there are, and on which GPUs. Autoscalers say how many (`weft.scaling`)."""
