"""Experiments that people run: comparisons, studies, the testbed, load, reports and pictures."""
