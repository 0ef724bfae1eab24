"""The simulator: the driver that plays a trace through the scheduling core in simulated time."""
