"""The process that a server is: its event loop and long work in slices, its clock and log, its memory and CPU time.

Nothing here knows of jobs or nodes."""
