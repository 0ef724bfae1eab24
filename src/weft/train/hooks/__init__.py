"""Hooks into torch, for jobs whose script stays as it is: the one place where Weft changes a library in a job.

`site/sitecustomize.py` runs at the start of each Python of the job, and `torch_import` waits there for torch.
"""
