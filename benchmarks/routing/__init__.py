"""Programs that `benchmarks.router` starts: replicas, senders of requests, and proxies to compare with."""
