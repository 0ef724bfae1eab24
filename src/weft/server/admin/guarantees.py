"""What the scheduler of one machine enforces, and what it only asks of jobs. `weft doctor` shows it."""

from __future__ import annotations

from typing import Final

ENFORCED: Final = (
    "which GPUs a job sees", "time limits", "the number of jobs on a GPU", "reservations of GPU memory",
)  # fmt: skip
ADVISORY: Final = (
    "GPU memory: a job that uses more than it reserved is not stopped",
    "GPUs: a job that ignores CUDA_VISIBLE_DEVICES can use others; weft gpus shows it",
    "CPUs and RAM",
)
