"""Changes of the state: one function per fact. Each returns False if its fact was stale or impossible."""
