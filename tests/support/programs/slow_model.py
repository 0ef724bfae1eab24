"""A server of `weft_workloads` without torch: each request takes a moment, one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from weft_workloads.serving.batcher import Batcher
from weft_workloads.serving.http_server import serve

BATCH_S = 0.05


class SlowModel:
    def __init__(self) -> None:
        self.batcher = Batcher(self._run, 8)

    def submit(self, request: Mapping[str, Any]) -> Future[Any]:
        return self.batcher.submit(request)

    def stats(self) -> dict[str, Any]:
        return {"requests": self.batcher.requests}

    def _run(self, samples: list[Any]) -> list[Any]:
        time.sleep(BATCH_S)
        return samples


if __name__ == "__main__":
    model = SlowModel()
    serve("127.0.0.1", int(sys.argv[1]), model, lambda: None)
    model.batcher.close()
