"""The shim: one small process per run that outlives the scheduler, and the warm starter that forks it."""
