"""The entry points of the group `weft.workloads`: from the params of a job to its command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.access.jobspec.workloads import WorkloadCommand
from weft.errors import UnknownName
from weft_workloads.installed import missing
from weft_workloads.serving import command
from weft_workloads.settings import read_settings, words_of

SCRIPT: Final = 'exec "${WEFT_PYTHON:-python3}" -m weft_workloads "$@"'
"""The node's Python, which has Weft; the submitter's may be on another machine."""
SERVER_PARAMS: Final = ("model", "size", "batch", "seed", "threads")


def serve(params: Mapping[str, str]) -> WorkloadCommand:
    """Return the command of a replica that serves `params.model`."""
    command.check_model(params["model"])
    unknown = [name for name in params if name not in SERVER_PARAMS]
    if unknown:
        raise UnknownName("param of a server", unknown[0][:80], SERVER_PARAMS)
    words = [word for name, value in params.items() for word in (f"--{name}", value)]
    return WorkloadCommand(["sh", "-c", SCRIPT, "weft_workloads", "serve", *words])


def train(params: Mapping[str, str]) -> WorkloadCommand:
    """Return the command that trains `params.model`, with one process for each GPU."""
    words = words_of(read_settings(params))
    return WorkloadCommand(
        ["sh", "-c", SCRIPT, "weft_workloads", *words], per_gpu=True, missing=missing(params["model"])
    )
