"""Requests of inference services: arrivals, latency grids, replicas that batch or stream, the router's queue (pure)."""
