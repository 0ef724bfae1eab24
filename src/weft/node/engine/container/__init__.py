"""Runs in containers: the port of container runtimes, one file for each runtime, and the supervisor of one container.

`port` is the seam; `podman`, `docker` and `apptainer` implement it; `supervisor` is the leader of such a run.
"""
