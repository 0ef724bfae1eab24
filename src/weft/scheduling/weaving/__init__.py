"""Weaving: several jobs on one set of GPUs, which take turns in the data, GPU and network stage (Muri, SIGCOMM'22)."""
