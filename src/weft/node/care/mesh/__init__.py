"""The network between nodes, measured by a short job on each of them: gang ports, host names, bandwidth, clocks."""
