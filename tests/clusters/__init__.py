"""A whole cluster in one process and without waiting: the real scheduler, registry and agents, over a simulated
network, on simulated machines, by a simulated clock. `play(seed)` does the same every time."""
