"""The entry points of the group `weft.workloads`: from the params of a job to its command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.jobspec.workloads import WorkloadCommand
from weft_workloads.settings import read_settings, words_of

SCRIPT: Final = 'exec "${WEFT_PYTHON:-python3}" -m weft_workloads "$@"'
"""The node's Python, which has Weft; the submitter's may be on another machine."""


def train(params: Mapping[str, str]) -> WorkloadCommand:
    """Return the command that trains `params.model`, with one process for each GPU."""
    return WorkloadCommand(["sh", "-c", SCRIPT, "weft_workloads", *words_of(read_settings(params))], per_gpu=True)
