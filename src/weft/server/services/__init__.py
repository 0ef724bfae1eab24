"""Live services: deployments, the events of replicas, the table for routers, autoscaling, and the router's process."""
