"""Recovery: finding out what became of a run, noticing processes that exit, and killing orphans."""
