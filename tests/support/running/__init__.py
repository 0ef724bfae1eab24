"""Real servers, clusters and users on this machine."""
