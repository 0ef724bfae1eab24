"""The web page: what 50 open pages cost the scheduler, whose decisions must not wait for them."""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from weft.access.client import Client
from weft.access.endpoints.paths import Paths, user_paths
from weft.access.jobspec.fields import spec_of
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.views.answers.operations import SHUTDOWN

PAGES: Final = 50
REQUESTS: Final = 600
PER_S: Final = 50
"""Submissions and cancellations a second: each is a change on every page."""
JOBS: Final = 2000
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def figures() -> Iterator[Figure]:
    """Measure without and with open pages, in turn, twice; other load of the machine disturbs both alike."""
    with (
        tempfile.TemporaryDirectory(prefix="weft-b-") as folder,
        _scheduler(Path(folder)) as (paths, env),
        Client(paths) as client,
    ):
        client.submit(SubmitRequest(jobs=[_held()] * JOBS, chdir="/"))
        bare, pages = [], []
        for _ in range(2):
            bare.append(_measure(client, paths))
            with _open_pages(env, PAGES):
                pages.append(_measure(client, paths))
    alone, watched = (tuple(map(min, zip(*found, strict=True))) for found in (bare, pages))
    yield Figure("submit to answer, no page, median", alone[0], "ms")
    yield Figure(f"  with {PAGES} open pages", watched[0], "ms")
    yield Figure("  ratio", watched[0] / alone[0], "", 1.5)
    yield Figure("submit to answer, no page, 99 %", alone[1], "ms")
    yield Figure(f"  with {PAGES} open pages", watched[1], "ms")
    yield Figure(f"the scheduler's CPU at {PER_S} changes/s, no page", 100 * alone[2], "% of a core")
    yield Figure(f"  with {PAGES} open pages", 100 * watched[2], "% of a core")


def _measure(client: Client, paths: Paths) -> tuple[float, float, float]:
    """Return the median and the 99 % quantile of a submission in ms, and the scheduler's share of a core."""
    times, pid = [], int(paths.lock.read_text())
    began, cpu_s = time.monotonic(), _cpu_s(pid)
    for at in range(REQUESTS):
        time.sleep(max(began + at / PER_S - time.monotonic(), 0.0))
        start = time.perf_counter()
        (job,) = client.submit(SubmitRequest(jobs=[_held()], chdir="/"))
        times.append((time.perf_counter() - start) * 1000)
        client.change("cancel", [job])
    share = (_cpu_s(pid) - cpu_s) / (time.monotonic() - began)
    return statistics.median(times), statistics.quantiles(times, n=100)[98], share


def _held() -> JobSpec:
    return spec_of({"command": ["true"], "hold": "true", "gpus": "1"})


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def _scheduler(root: Path) -> Iterator[tuple[Paths, dict[str, str]]]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
    env = {**keep, "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r"}
    subprocess.run([sys.executable, "-m", "weft", "up", "--gpus", "0,1"], env=env, check=True, capture_output=True)
    paths = user_paths(env)
    try:
        yield paths, env
    finally:
        with Client(paths, start=False) as client:
            client.operate(SHUTDOWN, kill="yes")


@contextmanager
def _open_pages(env: dict[str, str], count: int) -> Iterator[None]:
    """Open pages of one `weft web`, each with a stream that a thread reads."""
    command = [sys.executable, "-m", "weft", "web", "--port", "0"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    connections: list[http.client.HTTPConnection] = []
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/login\?token=\S+)", process.stdout.readline())
        assert found is not None
        login = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        login.request("GET", found[2])
        cookie = (login.getresponse().getheader("Set-Cookie") or "").partition(";")[0]
        for _ in range(count):
            each = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
            each.request("GET", "/api/v1/stream", headers={"Cookie": cookie})
            answer = each.getresponse()
            assert answer.status == 200, answer.read()
            threading.Thread(target=_drain, args=(answer,), daemon=True).start()
            connections.append(each)
        time.sleep(2.0)  # the page has loaded all jobs
        yield
    finally:
        for each in connections:
            if each.sock is not None:
                each.sock.close()
        process.terminate()
        process.wait(20)


def _drain(answer: http.client.HTTPResponse) -> None:
    try:
        while answer.read1(1 << 16):
            pass
    except (OSError, ValueError, http.client.HTTPException):
        pass  # the page is closed
