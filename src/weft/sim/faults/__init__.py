"""Uncertainty in a simulation: node failures, crashes of runs, and inexact estimates of durations."""
