"""Weaving: several jobs on one set of GPUs, each using the data, GPU and network stage in turn (Muri, SIGCOMM'22)."""
