"""The hours before the page started, from the journal: `python -m weft.web.live.past JSON`.

It is a process of low priority, so that neither the page nor the scheduler waits for it, and its memory is returned.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths
from weft.history.metrics.history import read_history
from weft.history.metrics.records import ClusterRow, JobRecord
from weft.model import Fact, Resized
from weft.web.live.board import Board
from weft.web.live.samples import HISTORY_S, HOUR_S, MAX_SCALINGS, USAGE_DAYS, Sample, ServiceHistory

STEP_S: Final = 60.0
TIMEOUT_S: Final = 600.0
MAX_ANSWER_BYTES: Final = 32 << 20
log = logging.getLogger(__name__)


async def load_past(board: Board, where: Paths | Address) -> None:
    """Read the past in another process, and add it to the board."""
    command = (sys.executable, "-m", "weft.web.live.past", json.dumps(_packed(where)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, limit=MAX_ANSWER_BYTES)
    try:
        out, errors = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    except TimeoutError:
        log.warning("the journal was not read within %.0f s: the charts begin now", TIMEOUT_S)
        return
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        log.warning("the charts begin now: %s", errors.decode(errors="replace").strip()[-300:])
        return
    found = json.loads(out)
    board.samples.put_before(Sample(*row) for row in found["samples"])
    board.usage.load(found["usage"])
    for service, scalings in found["scalings"].items():
        history = board.service_history.setdefault(service, ServiceHistory())
        rows = [(at, replicas, why) for at, replicas, why in scalings]
        first = history.scalings[0][0] if history.scalings else float("inf")
        earlier = [row for row in rows if row[0] < first]
        for row in reversed(earlier):
            if len(history.scalings) < MAX_SCALINGS:
                history.scalings.appendleft(row)


def _packed(where: Paths | Address) -> list[str]:
    if isinstance(where, Paths):
        return ["local", str(where.state), str(where.runtime), where.journal]
    return ["cluster", where.host, str(where.port)]


def main(args: Sequence[str]) -> int:
    os.nice(10)
    kind, *parts = json.loads(args[0])
    where = Paths(*parts) if kind == "local" else Address(parts[0], int(parts[1]))
    scalings: dict[str, list[tuple[float, int, str]]] = {}
    with Client(where, start=False) as client:
        record = read_history(_noting(client.journal(), scalings)).record
    now = time.time()
    found = {
        "samples": list(samples_of(record.rows, now)),
        "usage": usage_of(record.jobs, now),
        "scalings": {name: rows[-MAX_SCALINGS:] for name, rows in scalings.items()},
    }
    sys.stdout.write(json.dumps(found))
    return 0


def _noting(facts: Iterable[Fact], scalings: dict[str, list[tuple[float, int, str]]]) -> Iterator[Fact]:
    for fact in facts:
        if isinstance(fact, Resized):
            scalings.setdefault(fact.service, []).append((fact.at, fact.replicas, fact.why))
        yield fact


def samples_of(rows: Sequence[ClusterRow], now: float) -> Iterator[Sample]:
    """Yield the cluster once a minute over the last hours: its state at that time."""
    at, index = now - HISTORY_S, 0
    if not rows:
        return
    while at < now:
        while index + 1 < len(rows) and rows[index + 1][0] <= at:
            index += 1
        if rows[index][0] <= at:
            _, busy, gpus, waiting, running, _ = rows[index]
            yield Sample(at, busy, gpus, None, running, waiting)
        at += STEP_S


def usage_of(jobs: Iterable[JobRecord], now: float) -> dict[str, dict[int, float]]:
    """Return the GPU seconds of each user by hour. Those of a job are spread evenly between its first start and its
    end: the record of a job has no more."""
    oldest = now - USAGE_DAYS * 86400
    found: dict[str, dict[int, float]] = {}
    for job in jobs:
        start, end = job.first_start, job.end if job.end is not None else now
        if start is None or end < oldest or job.gpu_seconds <= 0:
            continue
        per_s = job.gpu_seconds / max(end - start, 1e-3)
        hours = found.setdefault(job.user, {})
        at = max(start, oldest)
        while at < end:
            until = min((at // HOUR_S + 1) * HOUR_S, end)
            hours[int(at // HOUR_S)] = hours.get(int(at // HOUR_S), 0.0) + (until - at) * per_s
            at = until
        if end <= start:
            hours[int(start // HOUR_S)] = hours.get(int(start // HOUR_S), 0.0) + job.gpu_seconds
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
