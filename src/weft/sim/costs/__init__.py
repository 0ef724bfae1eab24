"""Cost models: how fast simulated runs progress, and what starts, stops and failures cost."""
