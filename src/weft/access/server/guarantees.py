"""Guarantees of the scheduler of one machine: the rules it enforces or only asks of jobs. `weft doctor` shows them."""

from __future__ import annotations

from typing import Final

ENFORCED: Final = (
    "which GPUs a job sees", "time limits", "the number of jobs on a GPU", "reservations of GPU memory",
    "main memory that a job asks for with --mem",
)  # fmt: skip
ADVISORY: Final = (
    "GPU memory: a job that uses more than it reserved is not stopped",
    "GPUs: a job that ignores CUDA_VISIBLE_DEVICES can use others; weft gpus shows it",
    "CPUs, unless control groups limit them: see limits",
    "shares of GPUs, unless weft gpus lists what enforces them; MPS limits, green contexts and stream priorities were "
    "not run on hardware",
)
