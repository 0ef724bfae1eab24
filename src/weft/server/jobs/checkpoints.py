"""The last checkpoint of each job. It outlives the run and the server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from weft.inputs.atomic import write_atomic
from weft.model import JobId
from weft.node.engine.output.left_reports import read_left
from weft.node.engine.shim import run_files
from weft.server.jobs.progress_report import checkpoint_of
from weft.views.answers.jobs import CheckpointView

LATEST: Final = "latest.json"
"""The file that `weft.train` writes."""


def last_checkpoint(jobs: Path, job: JobId) -> CheckpointView | None:
    """Return the last checkpoint that any run of the job has recorded."""
    try:
        body = read_left(jobs / job / run_files.CHECKPOINTS / LATEST)
        return checkpoint_of(json.loads(body))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


class Checkpoints:
    """The checkpoints that the jobs of a cluster report, saved where `last_checkpoint` reads them. The start message of
    the next run, which may be on another node, carries them."""

    def __init__(self, jobs: Path, on_change: Callable[[Path], None] = lambda _: None) -> None:
        self._jobs, self._on_change = jobs, on_change

    def keep(self, job: JobId, body: Any) -> None:
        """Save the checkpoint of a progress report, unless it is older than the saved one. Raise if it is invalid."""
        if checkpoint_of(body) is None or float(body["time"]) <= self._known_at(job):
            return
        found = {key: body.get(key) for key in ("path", "step", "time")}
        path = self._path(job)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, run_files.to_json(found))
        self._on_change(path)

    def _known_at(self, job: JobId) -> float:
        try:
            return float(json.loads(self.of(job))["time"])
        except (ValueError, KeyError, TypeError):
            return -math.inf

    def of(self, job: JobId) -> str:
        """Return the checkpoint as JSON for the start message; empty if there is none."""
        try:
            return read_left(self._path(job)).decode()
        except (OSError, ValueError):
            return ""

    def _path(self, job: JobId) -> Path:
        return self._jobs / job / run_files.CHECKPOINTS / LATEST
