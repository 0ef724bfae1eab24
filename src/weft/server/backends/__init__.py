"""Backends execute runs: the seam is `base`; `local` is this machine, `agents` a cluster.

A new backend is one module here: a class with `open`, `execute` and `close`, the ports that it offers, and a function
that builds them from a `Host`. Name it in `local_main` or `cluster_main`, which
build a server.
"""
