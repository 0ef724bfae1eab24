"""The description of a service in a file, shared by simulations and deployments."""
