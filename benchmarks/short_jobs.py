"""Jobs that do nothing, end to end on eight slots: Weft, task-spooler and HyperQueue, measured in turn."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figure import Figure

JOBS, SLOTS, ROUNDS = 1000, 8, 2
_TICKS = os.sysconf("SC_CLK_TCK")
HQ = """
import os, sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster(worker_config=WorkerConfig(cores=int(sys.argv[2]))) as cluster:
    client, job = cluster.client(), Job()
    for _ in range(int(sys.argv[1])):
        job.program(["true"])
    began, cpu = time.monotonic(), time.process_time()
    client.wait_for_jobs([client.submit(job)])
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    pages = int(open("/proc/self/statm").read().split()[1])
    print("took", took, cpu, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20))
"""
TSP = "tsp -S {slots}; for i in $(seq {jobs}); do tsp true >/dev/null; done"


@dataclass(frozen=True)
class Round:
    """One measurement of one system."""

    jobs_per_s: float
    cpu_ms: float | None = None
    """CPU time of the scheduler per job; None: unknown."""
    rss_mb: float | None = None
    """Memory of the scheduler after the last job."""


def figures() -> Iterator[Figure]:
    """Measure all systems in several rounds and take the best of each, so that other load disturbs all alike."""
    rounds = [(_measure_weft(), _measure_task_spooler(), _measure_hyperqueue()) for _ in range(ROUNDS)]
    weft, spooler, queue = (_best([found for found in each if found]) for each in zip(*rounds, strict=True))
    assert weft is not None
    ours = weft.jobs_per_s
    names = {"weft": weft, "task-spooler": spooler, "HyperQueue with its worker": queue}
    measured = {name: found for name, found in names.items() if found is not None}
    for name, found in measured.items():
        yield Figure(f"{name}, jobs that do nothing", found.jobs_per_s, "jobs/s")
    for name, found in measured.items():
        if found.cpu_ms is not None:
            yield Figure(f"{name}, the scheduler's CPU per job", found.cpu_ms, "ms")
    for name, found in measured.items():
        if found.rss_mb is not None:
            yield Figure(f"{name}, the scheduler's memory", found.rss_mb, "MB")
    if spooler:
        yield Figure("weft / task-spooler", ours / spooler.jobs_per_s, "", 0.3, more_is_better=True)
    if queue:
        yield Figure("weft / HyperQueue", ours / queue.jobs_per_s, "", 0.5, more_is_better=True)
    slurm = _measure_slurm()
    if slurm:
        yield Figure("Slurm, jobs that do nothing", slurm, "jobs/s")
        yield Figure("weft / Slurm", ours / slurm, "")
    for name, peer in (("task-spooler (Debian: task-spooler)", spooler), ("HyperQueue (pip: hyperqueue)", queue)):
        if not peer:
            print(f"  not installed and not compared: {name}", file=sys.stderr)


def _best(rounds: list[Round]) -> Round | None:
    if not rounds:
        return None
    cpu_ms = [found.cpu_ms for found in rounds if found.cpu_ms is not None]
    rss_mb = [found.rss_mb for found in rounds if found.rss_mb is not None]
    return Round(max(found.jobs_per_s for found in rounds), min(cpu_ms, default=None), max(rss_mb, default=None))


def _measure_weft() -> Round:
    from weft.access.client import Client
    from weft.access.endpoints.paths import Paths
    from weft.access.jobspec.fields import spec_of
    from weft.access.wire.messages import SubmitRequest, Variable
    from weft.views.answers.operations import SHUTDOWN

    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        where = Paths(Path(root, "s"), Path(root, "r"))
        where.make()
        gpus = ",".join(map(str, range(SLOTS)))
        (where.state / "settings.json").write_text(json.dumps({"gpus": gpus}))
        with Client(where) as client:
            pid = int(where.lock.read_text())
            before, began = _cpu_s(pid), time.monotonic()
            env = [Variable(name="PATH", value=os.environ["PATH"])]
            ids = client.submit(SubmitRequest(jobs=[spec_of({"command": ["true"]})] * JOBS, env=env))
            while client.queue(limit=1).running + client.queue(limit=1).waiting:
                time.sleep(0.02)
            rate = len(ids) / (time.monotonic() - began)
            cpu_ms, rss_mb = 1e3 * (_cpu_s(pid) - before) / JOBS, _rss_mb(pid)
            assert client.jobs([ids[-1]]).jobs[0].exit_code == 0
            client.operate(SHUTDOWN)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return Round(rate, cpu_ms, rss_mb)


def _measure_task_spooler() -> Round | None:
    if shutil.which("tsp") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        env = {**os.environ, "TS_SOCKET": f"{root}/socket", "TMPDIR": root}
        began = time.monotonic()
        subprocess.run(["sh", "-c", TSP.format(jobs=JOBS, slots=SLOTS)], env=env, check=True, capture_output=True)
        while b"queued" in (listing := subprocess.run(["tsp"], env=env, check=True, capture_output=True).stdout) or (
            b"running" in listing
        ):
            time.sleep(0.02)
        took_s = time.monotonic() - began
        server = _find_process(f"TS_SOCKET={root}/socket")
        cost = (1e3 * _cpu_s(server) / JOBS, _rss_mb(server)) if server else ()
        subprocess.run(["tsp", "-K"], env=env, check=False, capture_output=True)
    return Round(JOBS / took_s, *cost)


def _find_process(variable: str) -> int | None:
    """Return the pid of a process with this variable. After its jobs, only task-spooler's server has its own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
    return None


def _measure_hyperqueue() -> Round | None:
    if importlib.util.find_spec("hyperqueue") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        command = [sys.executable, "-c", HQ, str(JOBS), str(SLOTS)]
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    took_s, cpu_s, rss_mb = map(float, done.stdout.rpartition("took ")[2].split())
    return Round(JOBS / took_s, 1e3 * cpu_s / JOBS, rss_mb)


def _measure_slurm() -> float:
    """Return the jobs per second of one Slurm array, its way to submit many jobs; 0 if no Slurm answers."""
    if shutil.which("sbatch") is None or subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
        return 0.0
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        array = ["sbatch", "--wait", f"--array=1-{JOBS}%{SLOTS}", "--output=/dev/null", "--wrap", "true"]
        began = time.monotonic()
        subprocess.run(array, cwd=root, check=True, capture_output=True)
        return JOBS / (time.monotonic() - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
