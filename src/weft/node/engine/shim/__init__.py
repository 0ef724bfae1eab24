"""The shim: one small process per run that survives the scheduler, and the warm starter that forks it."""
