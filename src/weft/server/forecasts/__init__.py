"""Forecasts of the live state: `__main__` is the process that makes them, `keeper` starts it and keeps its answers."""
