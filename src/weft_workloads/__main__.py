"""Entry point of `python -m weft_workloads`."""

from weft_workloads.main import start

start()
