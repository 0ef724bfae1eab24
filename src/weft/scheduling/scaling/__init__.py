"""Autoscalers, which choose the number of replicas of a service: one file each; the port and what they share (pure)."""
