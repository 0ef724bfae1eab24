"""Trials of a sweep: the values of their parameters, their results, and the rules that stop some of them early.

`parameters` reads values from flags, `parameter_files` from files, `results` sorts and marks, `early_stop` decides.
"""
