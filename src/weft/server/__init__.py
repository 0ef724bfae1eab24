"""The scheduler as a process: the core, a journal and a backend behind the wire."""
