"""Jobs that do nothing, end to end on eight slots: Weft beside task-spooler and HyperQueue, one after the other."""

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
from pathlib import Path

from benchmarks.figure import Figure

JOBS, SLOTS, ROUNDS = 1000, 8, 2
_TICKS = os.sysconf("SC_CLK_TCK")
HQ = """
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster(worker_config=WorkerConfig(cores=int(sys.argv[2]))) as cluster:
    client, job = cluster.client(), Job()
    for _ in range(int(sys.argv[1])):
        job.program(["true"])
    began = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print("took", time.monotonic() - began)
"""
TSP = "tsp -S {slots}; for i in $(seq {jobs}); do tsp true >/dev/null; done"


def figures() -> Iterator[Figure]:
    """The best of each in several rounds, so that whatever else the machine does disturbs all alike."""
    ours, cost_ms, memory_mb = 0.0, float("inf"), 0.0
    spooler = queue = 0.0
    for _ in range(ROUNDS):
        rate, cpu_ms, rss_mb = _weft()
        ours, cost_ms, memory_mb = max(ours, rate), min(cost_ms, cpu_ms), max(memory_mb, rss_mb)
        spooler = max(spooler, _task_spooler())
        queue = max(queue, _hyperqueue())
    yield Figure("weft, jobs that do nothing", ours, "jobs/s")
    yield Figure("weft, the scheduler's CPU per job", cost_ms, "ms")
    yield Figure("weft, the scheduler's memory after it", memory_mb, "MB")
    if spooler:
        yield Figure("task-spooler, the same", spooler, "jobs/s")
        yield Figure("weft / task-spooler", ours / spooler, "", 0.3, more_is_better=True)
    if queue:
        yield Figure("HyperQueue, the same", queue, "jobs/s")
        yield Figure("weft / HyperQueue", ours / queue, "", 0.5, more_is_better=True)
    slurm = _slurm()
    if slurm:
        yield Figure("Slurm, the same", slurm, "jobs/s")
        yield Figure("weft / Slurm", ours / slurm, "")
    for name, found in (("task-spooler (Debian: task-spooler)", spooler), ("HyperQueue (pip: hyperqueue)", queue)):
        if not found:
            print(f"  not installed, so not compared with: {name}", file=sys.stderr)


def _weft() -> tuple[float, float, float]:
    from weft.client import Client
    from weft.wire.messages import SubmitRequest, Variable
    from weft.wire.places import Places
    from weft.wire.specs import spec_of

    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        where = Places(Path(root, "s"), Path(root, "r"))
        where.make()
        gpus = ",".join(map(str, range(SLOTS)))
        (where.state / "settings.json").write_text(json.dumps({"gpus": gpus}))
        with Client(where) as client:
            pid = int(where.lock.read_text())
            before, began = _cpu_s(pid), time.monotonic()
            env = [Variable(name="PATH", value=os.environ["PATH"])]
            ids = client.submit(SubmitRequest(jobs=[spec_of({"command": ["true"]})] * JOBS, env=env))
            while client.query("queue", limit=1)["running"] + client.query("queue", limit=1)["waiting"]:
                time.sleep(0.02)
            rate = len(ids) / (time.monotonic() - began)
            cpu_ms, rss_mb = 1e3 * (_cpu_s(pid) - before) / JOBS, _rss_mb(pid)
            assert client.query("job", [ids[-1]])["jobs"][0]["exit_code"] == 0
            client.operate("shutdown")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return rate, cpu_ms, rss_mb


def _task_spooler() -> float:
    if shutil.which("tsp") is None:
        return 0.0
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        env = {**os.environ, "TS_SOCKET": f"{root}/socket", "TMPDIR": root}
        began = time.monotonic()
        subprocess.run(["sh", "-c", TSP.format(jobs=JOBS, slots=SLOTS)], env=env, check=True, capture_output=True)
        while b"queued" in (listing := subprocess.run(["tsp"], env=env, check=True, capture_output=True).stdout) or (
            b"running" in listing
        ):
            time.sleep(0.02)
        took_s = time.monotonic() - began
        subprocess.run(["tsp", "-K"], env=env, check=False, capture_output=True)
    return JOBS / took_s


def _hyperqueue() -> float:
    if importlib.util.find_spec("hyperqueue") is None:
        return 0.0
    with tempfile.TemporaryDirectory(prefix="weft-b-") as root:
        command = [sys.executable, "-c", HQ, str(JOBS), str(SLOTS)]
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return JOBS / float(done.stdout.rpartition("took ")[2])


def _slurm() -> float:
    """Where a Slurm answers. It is asked for one array: its own way to submit many jobs at once."""
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
