"""Traces: readers, generator, statistics, writers and the variants of a paper's traces."""
