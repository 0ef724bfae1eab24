"""The scheduler as a server: the core, a journal and a backend, behind an API.

`local_main` and `cluster_main` start it; `controller` connects its parts; `loop` journals and decides.
"""
