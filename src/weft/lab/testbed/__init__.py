"""The testbed: a matrix of clusters, traces, policies and schedule intervals, played through real schedulers.

A cell of the matrix is one experiment. `matrix` lists the cells, `driver` runs all, `cell` runs one, `store` keeps
finished ones in a folder, `measures` reads the journal of one, `simulated` and `published` say what to expect,
`summary` compares, `report` draws.

Clusters run on loopback with declared GPUs; schedulers, agents and job processes are real, and GPUs are emulated. The
trace is scaled, not the clock: at a speed of 3,600, an hour of the trace takes a second.
"""
