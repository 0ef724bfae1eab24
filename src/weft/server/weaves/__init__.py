"""The weaves of runs: the messages that change them, what their counters tell, and how they are shown. Pure."""
