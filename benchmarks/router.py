"""The router: CPU time per request and per event of a stream, next to two other proxies, and one service flooded."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.figure import Figure
from benchmarks.routing.sender import cpu_clock

ROOT: Final = Path(__file__).resolve().parents[1]
PEERS: Final = {"aiohttp": ("aiohttp",), "flask": ("flask", "requests")}
PASSES: Final = 3
COUNTS: Final = {"weft": 6000, "aiohttp": 2000, "flask": 300}
"""Requests of one measurement."""
CONNECTIONS: Final = (16, 64)
STREAMS, STREAM_CHUNKS, STREAM_GAP_S = 40, 100, 0.01
MANY: Final = 1000
FLOOD: Final = 200
FLOODED_DELAY_S: Final = 0.01
PROBES: Final = 250
PRIORITY: Final = -10


class Server(NamedTuple):
    """A process that listens, and a clock of its CPU time."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        return time.clock_gettime(cpu_clock(self.pid))


@contextmanager
def started(*words: str) -> Iterator[Server]:
    """Run a Python module that prints its port."""
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Server(int(line.rsplit(":", 1)[-1]), process.pid)
    finally:
        process.kill()
        process.wait()


@contextmanager
def router(services: dict[str, tuple[int, list[int]]]) -> Iterator[Server]:
    """Run `weft router` for services: their concurrency, and the ports of their replicas."""
    with TemporaryDirectory(prefix="weft-") as name:
        table = {
            "services": {
                service: {"concurrency": limit, "max_queue": 5000, "replicas": [f"127.0.0.1:{port}" for port in ports]}
                for service, (limit, ports) in services.items()
            }
        }
        path = Path(name, "table.json")
        path.write_text(json.dumps(table))
        with started("weft", "router", "--table", str(path), "--listen", "127.0.0.1:0") as server:
            yield server


def replica(delay_s: float = 0.0, chunks: int = 0, gap_s: float = 0.0) -> tuple[str, ...]:
    return ("benchmarks.routing.replica", str(delay_s), str(chunks), str(gap_s))


def send(kind: str, port: int, path: str, connections: int, count: int) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.routing.sender", kind, str(port), path, str(connections), str(count)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        ports = [stack.enter_context(started(*replica())).port for _ in range(2)]
        servers = {"weft": stack.enter_context(router({"svc": (64, ports)}))}
        for name, packages in PEERS.items():
            if _installed(*packages):
                words = (f"benchmarks.routing.{name}_proxy", *map(str, ports))
                servers[name] = stack.enter_context(started(*words))
        yield from _requests(servers)
        yield from _many_connections(servers["weft"])
    yield from _streams()
    yield from _flood(FLOODED_DELAY_S, 2.0)
    yield from _flood(0.0, None)


def _installed(*packages: str) -> bool:
    """Install packages that only this comparison needs, if they are missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        words = [sys.executable, "-m", "pip", "install", "-qq", "-c", "constraints.txt", *missing]
        if subprocess.run(words, cwd=ROOT, capture_output=True).returncode:
            print(f"  {', '.join(missing)} cannot be installed: not compared", file=sys.stderr)
            return False
    return True


def _requests(servers: dict[str, Server]) -> Iterator[Figure]:
    best: dict[tuple[str, int], float] = {}
    for at in range(PASSES):  # in turns, so that the load of the machine is the same for all
        for name, server in servers.items():
            for connections in CONNECTIONS:
                count = COUNTS[name]
                before = server.cpu_s()
                sent = send("closed", server.port, "/svc/x", connections, count)
                assert sent["answered"] == count, sent
                spent = 1e6 * (server.cpu_s() - before) / count
                if at:  # the first pass warms up
                    best[name, connections] = min(spent, best.get((name, connections), spent))
    for connections in CONNECTIONS:
        own = best["weft", connections]
        yield Figure(f"a request through the router, {connections} connections", own, "CPU us", 80.0)
        for name, share in (("aiohttp", 1 / 3), ("flask", 1 / 20)):
            if (name, connections) in best:
                yield Figure(f"  through {name}", best[name, connections], "CPU us")
                yield Figure(f"  the router's share of {name}", own / best[name, connections], "", round(share, 3))


def _many_connections(server: Server) -> Iterator[Figure]:
    before = server.cpu_s()
    count = 3 * MANY
    answered = send("closed", server.port, "/svc/x", MANY, count)["answered"]
    spent = 1e6 * (server.cpu_s() - before) / count
    yield Figure(f"answered of {count:,} requests, {MANY:,} connections", answered, "", count, more_is_better=True)
    yield Figure("  a request", spent, "CPU us")


def _streams() -> Iterator[Figure]:
    with ExitStack() as stack:
        ports = [stack.enter_context(started(*replica(0.0, STREAM_CHUNKS, STREAM_GAP_S))).port for _ in range(2)]
        server = stack.enter_context(router({"svc": (64, ports)}))
        send("streams", server.port, "/svc/x", STREAMS, STREAMS)
        best = float("inf")
        for _ in range(PASSES):
            before = server.cpu_s()
            sent = send("streams", server.port, "/svc/x", STREAMS, 2 * STREAMS)
            assert sent["events"] == 2 * STREAMS * STREAM_CHUNKS, sent
            best = min(best, 1e6 * (server.cpu_s() - before) / sent["events"])
        yield Figure(f"an event of a stream, {STREAMS} streams", best, "CPU us", 25.0)


def _flood(delay_s: float, limit: float | None) -> Iterator[Figure]:
    """Compare a quiet service's time in the router without and with a flood of another service.

    The time in the router is the CPU time that the router spends from the moment a request is sent until its answer is
    there: its own work and the work that comes first. Wall time would measure how busy the machine is. For the same
    reason the processes of the quiet service run at a raised priority, if that is permitted.
    """
    with ExitStack() as stack:
        quiet = stack.enter_context(started(*replica()))
        flooded = [stack.enter_context(started(*replica(delay_s))).port for _ in range(2)]
        server = stack.enter_context(router({"quiet": (8, [quiet.port]), "flooded": (8, flooded)}))
        with suppress(OSError):
            for pid in (server.pid, quiet.pid):
                os.setpriority(os.PRIO_PROCESS, pid, PRIORITY)
        found = []
        for _ in range(PASSES):
            alone = _time_in_router(server)
            words = [sys.executable, "-m", "benchmarks.routing.sender", "closed", str(server.port), "/flooded/x"]
            flood = subprocess.Popen([*words, str(FLOOD), "0"], cwd=ROOT, stdout=subprocess.DEVNULL)
            try:
                time.sleep(0.5)
                found.append((alone, _time_in_router(server)))
            finally:
                flood.kill()
                flood.wait()
        alone, busy = sorted(found, key=lambda each: each[1] / each[0])[len(found) // 2]
        what = f"in {1e3 * delay_s:g} ms" if delay_s else "at once"
        yield Figure(f"in the router, another answers {FLOOD} clients {what}", 1e6 * busy, "CPU us")
        yield Figure("  without them", 1e6 * alone, "CPU us")
        yield Figure(f"  times as long, median of {PASSES}", busy / alone, "x", limit)


def _time_in_router(server: Server) -> float:
    """Return the median time of a request of the quiet service in the router, in seconds."""
    words = ["nice", "-n", str(PRIORITY), sys.executable, "-m", "benchmarks.routing.sender", "probe", str(server.port)]
    done = subprocess.run(
        [*words, "/quiet/x", str(server.pid), str(PROBES)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return float(statistics.median(cpu_s for _, cpu_s in json.loads(done.stdout)))
