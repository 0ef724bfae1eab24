"""Live services with real processes: from no replica to one, faults under load, the scaler next to the simulator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.figure import Figure
from weft.access.endpoints.paths import user_paths
from weft.lab.load.arrivals import draw_arrivals
from weft.lab.load.figures import Sent
from weft.lab.load.sender import LoadPlan, send_all
from weft.lab.load.shapes import make_shape
from weft.node.engine.free_ports import find_free_port
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import ScaleBounds
from weft.sim.serving.arrivals import Arrivals
from weft.sim.serving.run import serve
from weft.sim.serving.service import SimulatedService

ROOT: Final = Path(__file__).resolve().parents[1]
PROGRAM: Final = f"exec {sys.executable} -m benchmarks.routing.service_program"
QUEUED: Final = 20
STARTS: Final = 3
RPS: Final = 40.0
FAULT_S: Final = 12.0
PATIENCE_S: Final = 120.0
TRACE_S, PEAK_RPS, SLOTS, ANSWER_S = 300, 60.0, 2, 0.1
"""Of the comparison with the simulator: a replica answers 20 requests per second."""


class Machine:
    """A scheduler with two declared GPUs, in a folder that goes with the benchmark."""

    def __init__(self, root: str) -> None:
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
        self.env = {**keep, "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "WEFT_SCHEDULER": "local"}
        self.root = Path(root)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command that stays."""
        command = [sys.executable, "-m", "weft", *words]
        with open(self.root / "out", "ab") as out:
            return subprocess.Popen(command, env=self.env, cwd=ROOT, stdout=out, stderr=out)

    def weft(self, *words: str) -> str:
        command = [sys.executable, "-m", "weft", *words]
        done = subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def deploy(self, replicas: Mapping[str, Any], env: Mapping[str, str], **keys: object) -> str:
        described = {
            "service": "svc", "run": PROGRAM, "share": "0.05/0.1", "replicas": replicas, "env": env, "concurrency": 8,
            "health": {"every": "500ms"}, "timeouts": {"drain": "5s"}, **keys,
        }  # fmt: skip
        (self.root / "svc.yaml").write_text(json.dumps(described))
        return self.weft("deploy", str(self.root / "svc.yaml")).strip()

    def undeploy(self) -> None:
        """End the service and its replicas: they would outlive the agent."""
        self.weft("undeploy", "svc", "--now")
        end = time.monotonic() + PATIENCE_S
        while json.loads(self.weft("services", "--json"))["services"]:
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.1)

    def service(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft("services", "--json"))["services"][0]
        return found

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds(self.service()):
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.1)

    def ready(self, count: int) -> None:
        self.until(lambda service: service["ready"] == count and len(service["replicas"]) == count)


@contextmanager
def machine() -> Iterator[Machine]:
    root = mkdtemp(prefix="weft-b-")
    here = Machine(root)
    try:
        here.weft("up", "--gpus", "0,1", "--models", "A100,A100", "--memories", "40960,40960")
        yield here
    finally:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            here.weft("down", "--kill")
        shutil.rmtree(root, ignore_errors=True)


def figures() -> Iterator[Figure]:
    with machine() as here:
        yield from _from_zero(here)
        yield from _faults(here)
    yield from _agent_fault()


def _from_zero(here: Machine) -> Iterator[Figure]:
    """Measure the time from the first of 20 requests to the last answer, without a replica at first."""
    url = here.deploy({"min": 0, "max": 1, "to_zero_after": "1s"}, {})
    times, answered = [], 0
    for _ in range(STARTS):
        here.until(lambda service: not service["replicas"])
        begin = time.perf_counter()
        sent = send(url, [0.0] * QUEUED)
        times.append(time.perf_counter() - begin - _own_start_s())
        answered += sum(each.status == 200 for each in sent)
    yield Figure(f"answered of {STARTS} x {QUEUED} requests to no replica", answered, "", STARTS * QUEUED, True)
    yield Figure("  longer than the replica's own start, median", statistics.median(times), "s", 0.5)


def _own_start_s() -> float:
    """Return the time from the start of a replica's process to its first answer."""
    port = find_free_port()
    begin = time.perf_counter()
    process = subprocess.Popen(PROGRAM.split()[1:], cwd=ROOT, env={**os.environ, "WEFT_PORT": str(port)})
    try:
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10.0).close()
                return time.perf_counter() - begin
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()


def _faults(here: Machine) -> Iterator[Figure]:
    """Count the requests that are lost while something is changed or killed under load."""
    url = here.deploy({"min": 2, "max": 2}, {})
    here.ready(2)

    def kill_replica() -> None:
        address = here.service()["replicas"][0]["address"]
        os.kill(_listener(int(address.rpartition(":")[2])), signal.SIGKILL)

    def kill_scheduler() -> None:
        os.kill(int(user_paths(here.env).lock.read_text()), signal.SIGKILL)

    acts: dict[str, Callable[[], object]] = {
        "scale-in": lambda: here.weft("scale", "svc", "1"),
        "scale-out": lambda: here.weft("scale", "svc", "2"),
        "a rolling update": lambda: here.deploy({"min": 2, "max": 2}, {"VERSION": "2"}),
        "kill -9 of a replica": kill_replica,
        "kill -9 of the scheduler": kill_scheduler,
    }
    for what, act in acts.items():
        yield _lost(url, what, act)
        here.ready(1 if what == "scale-in" else 2)


def _lost(url: str, what: str, act: Callable[[], object]) -> Figure:
    """Send requests, do something after a while, and count the requests without an answer."""
    thread = threading.Timer(FAULT_S / 4, act)
    thread.start()
    sent = send(url, draw_arrivals([RPS] * int(FAULT_S), 1.0, 1))
    thread.join()
    lost = sum(each.status != 200 for each in sent)
    return Figure(f"lost of {len(sent)} requests: {what} under {RPS:g}/s", lost, "", 0.0)


def _agent_fault() -> Iterator[Figure]:
    """Kill the agent of a cluster under load; it starts again after a second, as a supervisor would do."""
    root = mkdtemp(prefix="weft-b-")
    here, port = Machine(root), str(find_free_port())
    here.env["WEFT_SCHEDULER"] = f"localhost:{port}"
    join = ("worker", "--id", "n1", "--gpus", "0,1", "--run-as", "worker")
    agents: list[subprocess.Popen[bytes]] = []
    server = here.start("server", "--port", port, "--metrics-port", str(find_free_port()))

    def kill_agent() -> None:
        agents[-1].kill()
        agents[-1].wait()
        time.sleep(1.0)
        agents.append(here.start(*join))

    try:
        agents.append(here.start(*join))
        _await_node(here)
        url = here.deploy({"min": 2, "max": 2}, {})
        here.ready(2)
        yield _lost(url, "kill -9 of an agent", kill_agent)
        here.ready(2)
    finally:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            here.undeploy()
        for process in (*agents, server):
            process.terminate()
            process.wait()
        shutil.rmtree(root, ignore_errors=True)


def _await_node(here: Machine) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        with suppress(AssertionError, ValueError):
            if any(each["state"] == "connected" for each in json.loads(here.weft("nodes", "--json"))["nodes"]):
                return
        assert time.monotonic() < end, "no worker has joined"
        time.sleep(0.1)


def _listener(port: int) -> int:
    """Return the process that listens on a port of this machine."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"socket:[{inode}]" in [os.readlink(each) for each in (folder / "fd").iterdir()]:
                return int(folder.name)
    raise AssertionError(f"nothing listens on port {port}")


def scaler() -> Iterator[Figure]:
    """Compare the replicas of a live service with those of the simulator, second by second, for the same requests."""
    times = draw_arrivals(make_shape("bursty", PEAK_RPS, TRACE_S, 1), 1.0, 1)
    with machine() as here:
        keys = {"concurrency": SLOTS, "scale": {"by": "deficit", "throughput": SLOTS / ANSWER_S}}
        url = here.deploy({"min": 1, "max": 8}, {"ANSWER_S": str(ANSWER_S)}, **keys)
        here.ready(1)
        live: list[int] = []
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(here, live, ended))
        watcher.start()
        sent = send(url, times)
        ended.set()
        watcher.join()
    start_s = _own_start_s()
    service = SimulatedService(
        slots=SLOTS, token_s=ANSWER_S, throughput=SLOTS / ANSWER_S, cold_start_s=start_s, bounds=ScaleBounds(1, 8),
        profiled=SLOTS / ANSWER_S,
    )  # fmt: skip
    arrivals = Arrivals(array("d", times), float(TRACE_S), array("l", [1] * len(times)))
    simulated = list(serve(service, registry.load_scaler("deficit"), arrivals).replicas)
    pairs = list(zip(live[:TRACE_S], simulated[:TRACE_S], strict=False))
    near = sum(abs(ours - theirs) <= 1 for ours, theirs in pairs) / max(len(pairs), 1)
    ok = sum(each.status == 200 for each in sent)
    yield Figure(f"answered of {len(sent):,} requests of a bursty load, {TRACE_S} s", ok, "", len(sent), True)
    yield Figure("  replicas within one of the simulator's", 100 * near, "% of time", 95.0, True)
    yield Figure("  the most replicas, live", max(live, default=0), "")
    yield Figure("  the most replicas, simulated", max(simulated, default=0), "")


def _watch(here: Machine, live: list[int], ended: threading.Event) -> None:
    """Note the number of replicas that are to serve, once a second."""
    os.environ.update(here.env)
    from weft.access.client import Client

    begin = time.monotonic()
    with Client() as client:
        while not ended.is_set():
            found = client.services().services[0]
            live.append(sum(each.status != "draining" for each in found.replicas))
            ended.wait(max(0.0, begin + len(live) - time.monotonic()))


def send(url: str, times_s: list[float]) -> list[Sent]:
    where = urlsplit(url)
    request = f"GET {where.path}/x HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
    return send_all(LoadPlan(str(where.hostname), int(where.port or 80), request, times_s, timeout_s=60.0))
