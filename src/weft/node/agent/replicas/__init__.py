"""The replicas of services on a node: their ports, and the probes that find out whether they answer."""
