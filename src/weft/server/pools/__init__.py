"""Pools at work: the keeper observes providers and carries out the rules; memory, views and explanations of it."""
