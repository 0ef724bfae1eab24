"""Where the screen gets its changes from: a running scheduler, or a simulation."""
