"""What each fact does to the state: one function per fact; False where it was stale or impossible."""
