"""Dilu's HTTP interface: its requests become deployments, jobs and calls of Weft. Off unless `--dilu-api` is given."""
