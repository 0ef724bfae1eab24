"""A whole cluster in one process and without waiting: the real scheduler, roster and agents, over a simulated network,
on simulated machines, by a simulated clock. A seed says all that happens: `play(seed)` is the same every time."""
