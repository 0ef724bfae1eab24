"""A callback of Hydra that keeps the return value of a job for the launcher, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback


class KeepReturnValue(Callback):
    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def on_job_end(self, config: Any, job_return: JobReturn, **kwargs: Any) -> None:  # noqa: ARG002
        if job_return.status == JobStatus.COMPLETED:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                text = json.dumps(job_return.return_value)
            except TypeError:  # not a plain value: sweepers that optimise need a number
                text = "null"
            self._path.write_text(text)
