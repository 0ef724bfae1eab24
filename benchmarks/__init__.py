"""Benchmarks: CPU seconds of one process, with every fact applied and journalled in memory."""
