"""Benchmarks against goals. CPU times are those of one process, unless a figure says otherwise."""
