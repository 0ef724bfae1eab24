"""Studies: what a placement or an autoscaler does to many instances or requests, measured by replaying them.

A study reads or generates a workload, runs several rules on it, and returns figures and series; pictures are drawn by
`weft.lab.report`, tables by `weft.cli`.
"""
