"""Submit jobs during faults: each with a key, repeated until the scheduler confirms it."""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import grpc

from storm import probe
from storm.book import Book
from storm.verdict import Work
from support.running.live_cluster import Cluster
from weft.access.wire.messages import JobSpec, QueryRequest, SubmitRequest
from weft.model import JobId

SIZES = (1, 1, 2, 2, 3, 4)
"""GPUs: with two on each node, the larger ones are gangs."""
CODES = (0, 0, 0, 3, 7)
PATIENCE_S = 10.0


class Feeder:
    def __init__(self, here: Cluster, book: Book) -> None:
        self._here, self._book = here, book
        self._wanted: queue.Queue[tuple[SubmitRequest, Work]] = queue.Queue()
        self._made = 0
        self._over = threading.Event()
        self.jobs: dict[JobId, Work] = {}
        """Those that it was told of."""
        self._thread = threading.Thread(target=self._submit_all, daemon=True)
        self._thread.start()

    def invent(self, chance: Random, count: int) -> None:
        for _ in range(count):
            self._made += 1
            work = Work(chance.choice(SIZES), chance.choice(CODES), chance.randint(0, 2))
            seconds = chance.uniform(6.0, 9.0) if chance.random() < 0.2 else chance.uniform(0.2, 2.5)
            script = str(Path(probe.__file__))
            command = [sys.executable, "-IS", script, str(self._book.path), f"{seconds:.2f}", str(work.code)]
            spec = JobSpec(command=command, gpus=work.gpus, retries=work.retries, memory_mb=[1000], grace_s=2.0)
            request = SubmitRequest(jobs=[spec], chdir=str(self._here.root), key=f"storm-{self._made}")
            self._wanted.put((request, work))

    @property
    def is_done(self) -> bool:
        return len(self.jobs) == self._made

    @property
    def waiting(self) -> int:
        """Return the number of jobs that have not begun a run."""
        return self._made - len({line.job for line in self._book.begins()})

    def _submit_all(self) -> None:
        with self._here.channel() as call:
            while not self._over.is_set():
                try:
                    request, work = self._wanted.get(timeout=0.1)
                except queue.Empty:
                    continue
                while not self._over.is_set():
                    try:
                        (job,) = call("Submit")(request, timeout=PATIENCE_S).ids
                    except grpc.RpcError:
                        self._over.wait(0.1)
                    else:
                        self.jobs[job] = work
                        break

    def rows(self) -> dict[JobId, dict[str, Any]]:
        """Return the scheduler's answer about all of them; empty: it does not answer."""
        with self._here.channel() as call:
            try:
                found = json.loads(call("Query")(QueryRequest(what="job", jobs=sorted(self.jobs)), timeout=60.0).json)
            except grpc.RpcError:
                return {}
        return {row["id"]: row for row in found["jobs"]}

    def close(self) -> None:
        self._over.set()
        self._thread.join()
