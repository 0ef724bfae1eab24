"""A scheduler under attack: requests of megabytes on four connections, watchers that never read, an array of 100,000,
requests that cost more than they weigh; and a router whose clients send their bodies slowly.

Every caller is a user with a token, and so with a share of the scheduler's CPU time. The attack runs in a separate
process, `python -m benchmarks.hostile PORT TOKEN TOKENS S`: one token for the requests, one for each watcher.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc

from benchmarks import hostile_requests, router
from benchmarks.agents import free_port, start, start_server
from benchmarks.figure import Figure
from benchmarks.scheduler import cpu_s
from weft.access.auth.tokens import Tokens
from weft.access.client import Client
from weft.access.endpoints import credentials
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import Credentials
from weft.access.endpoints.paths import server_folder
from weft.access.wire.messages import JobSpec, QueryRequest, SubmitRequest, WatchRequest
from weft.access.wire.service import call

AGENTS: Final = 20
GPUS_PER_AGENT: Final = 8
LEASE_S: Final = 60.0
ATTACK_S: Final = 30.0
CONNECTIONS: Final = 4
SIZES: Final = (60 << 20, 15 << 20, 4_000_000)
"""The first word of the command: more than gRPC accepts, more than the scheduler accepts, and nearly its limit."""
WATCHERS: Final = 20
SMALL_WINDOW: Final = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535))
ARRAY: Final = 100_000
MAX_TURN_S: Final = 0.25
MAX_LEASE_SHARE: Final = 0.5
MAX_EXTRA_MB: Final = 100.0
RECOVERY_S: Final = 30.0
SLOTS: Final = 8
SLOW_CLIENTS: Final = 200
SLOW_REQUESTS: Final = 1000


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="weft-b-")))
        metrics = free_port()
        server, port = start_server(stack, home, LEASE_S, "--metrics-port", str(metrics))
        start(stack, "benchmarks.fleet", str(port), str(AGENTS), str(GPUS_PER_AGENT), str(home))
        client = stack.enter_context(Client(scheduler=f"localhost:{port}"))
        while sum(node.state == "connected" for node in client.nodes().nodes) < AGENTS:
            time.sleep(0.2)
        idle_mb = rss_mb(server)
        yield Figure(f"memory of an idle scheduler with {AGENTS} agents", idle_mb, "MB")
        yield from _measure_array(client, server, idle_mb, metrics, port)
        yield from _measure_attack(client, server, idle_mb, metrics, port)
        yield from _measure_requests(server, idle_mb, metrics, port)
    yield from _measure_slow_bodies()


def _measure_array(client: Client, server: int, idle_mb: float, metrics: int, port: int) -> Iterator[Figure]:
    """Submit the array while nothing else happens, then cancel and purge it: the second one finds its memory again."""
    probe = Probe(server, port, metrics)
    began = time.perf_counter()
    jobs = _submit_array(client)
    took = time.perf_counter() - began
    yield Figure(f"an array of {ARRAY:,}, accepted after", took, "s")
    yield from probe.stop()
    yield Figure("  the scheduler's memory with it", rss_mb(server) - idle_mb, "MB more")
    client.change("cancel", [jobs[0].partition("_")[0]])
    client.change("forget", [jobs[0].partition("_")[0]])


def _measure_attack(client: Client, server: int, idle_mb: float, metrics: int, port: int) -> Iterator[Figure]:
    probe = Probe(server, port, metrics)
    watchers = ",".join(user_token(port, f"watcher{at}") for at in range(WATCHERS))
    words = (str(port), user_token(port, "mallory"), watchers, str(ATTACK_S))
    command = [sys.executable, "-m", "benchmarks.hostile", *words]
    attack = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert attack.stdout is not None
    jobs = _submit_array(client)
    sent = attack.stdout.readline().strip()
    yield Figure(f"under attack for {ATTACK_S:.0f} s ({sent}), the memory at most", probe.most_mb - idle_mb, "MB more")
    yield from probe.stop()
    client.change("cancel", [jobs[0].partition("_")[0]])
    client.change("forget", [jobs[0].partition("_")[0]])
    until = time.perf_counter() + RECOVERY_S
    while rss_mb(server) - idle_mb > MAX_EXTRA_MB and time.perf_counter() < until:
        time.sleep(0.5)
    yield Figure(f"  its memory at most {RECOVERY_S:.0f} s later", rss_mb(server) - idle_mb, "MB more", MAX_EXTRA_MB)
    log = (server_folder(port) / "server.log").read_text()
    yield Figure(f"  silent watchers cut off by then, of {WATCHERS}", log.count("a watcher was cut off"), "")
    attack.communicate()


def _measure_requests(server: int, idle_mb: float, metrics: int, port: int) -> Iterator[Figure]:
    probe = Probe(server, port, metrics)
    command = [sys.executable, "-m", "benchmarks.hostile_requests", str(port), user_token(port, "eve"), str(ATTACK_S)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    yield Figure(f"{found['sent']} requests of many references, variables and bad numbers, the memory at most",
                 probe.most_mb - idle_mb, "MB more")  # fmt: skip
    yield Figure("  without an answer or a refusal", found["wrong"], "", 0)
    yield from probe.stop()
    log = (server_folder(port) / "server.log").read_text()
    yield Figure("  rebuilds of the state", log.count("rebuilding the state"), "", 0)


def _measure_slow_bodies() -> Iterator[Figure]:
    """Send requests through a router while other clients of the same service send their bodies slowly."""
    with ExitStack() as stack:
        replica = stack.enter_context(router.started(*router.replica()))
        server = stack.enter_context(router.router({"svc": (SLOTS, [replica.port])}))
        words = (server.port, "/svc/x", SLOW_CLIENTS, ATTACK_S)
        threading.Thread(target=hostile_requests.drip, args=words, daemon=True).start()
        time.sleep(1.0)
        answered = router.send("closed", server.port, "/svc/x", SLOTS, SLOW_REQUESTS)["answered"]
        what = f"answered of {SLOW_REQUESTS:,} requests, with {SLOW_CLIENTS} slow bodies for {SLOTS} slots"
        yield Figure(what, answered, "", SLOW_REQUESTS, more_is_better=True)


def _submit_array(client: Client) -> list[str]:
    return client.submit(SubmitRequest(jobs=[JobSpec(command=["true"], array=f"0-{ARRAY - 1}", hold=True, chdir="/")]))


class Probe:
    """Asks the scheduler again and again, as another user does, until it is stopped."""

    def __init__(self, server: int, port: int, metrics: int) -> None:
        self._server, self._port, self._metrics = server, port, metrics
        self._credentials = Credentials(user_token(port, "bob"), None)
        self._stopping = threading.Event()
        self.most_mb = 0.0
        self._slowest_s = self._most_cpu_s = self._oldest_s = 0.0
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        with credentials.open_channel(Address("localhost", self._port), self._credentials) as channel:
            query = call(channel, "Query")
            while not self._stopping.wait(0.1):
                began, cpu = time.perf_counter(), cpu_s(self._server)
                reply = query(QueryRequest(what="nodes"), metadata=self._credentials.metadata(), timeout=120.0)
                self.most_mb = max(self.most_mb, rss_mb(self._server))
                self._slowest_s = max(self._slowest_s, time.perf_counter() - began)
                self._most_cpu_s = max(self._most_cpu_s, cpu_s(self._server) - cpu)
                self._oldest_s = max(
                    self._oldest_s, *(node["beat_s"] or 0.0 for node in json.loads(reply.json)["nodes"])
                )

    def stop(self) -> Iterator[Figure]:
        self._stopping.set()
        self._thread.join()
        turn_s, turn_cpu_s = longest_turn(self._metrics)
        yield Figure("  the longest turn of its loop, CPU", turn_cpu_s, "CPU s", MAX_TURN_S)
        yield Figure("  the longest turn of its loop, wall", turn_s, "s")
        yield Figure("  the slowest answer to another caller, its CPU until then", self._most_cpu_s, "CPU s")
        yield Figure("  the slowest answer to another caller, wall", self._slowest_s, "s")
        yield Figure("  oldest heartbeat, share of the lease", self._oldest_s / LEASE_S, "", MAX_LEASE_SHARE)


def longest_turn(metrics: int) -> tuple[float, float]:
    """Return the longest turn of the last minute or two, in wall and in CPU seconds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=120) as page:
        rows = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if line[:1] not in ("#", ""))
    return float(rows["weft_loop_longest_turn_seconds"]), float(rows["weft_loop_longest_turn_cpu_seconds"])


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def user_token(port: int, user: str) -> str:
    tokens = Tokens(server_folder(port))
    try:
        return tokens.join(tokens.invite("user", user, expires_s=600.0, by="benchmark", fingerprint=""))[0]
    finally:
        tokens.close()


# ---- the attack


def attack(port: int, token: str, watcher_tokens: list[str], seconds: float) -> None:
    found = Credentials(token, None)
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        silent = [_watch(stack, port, Credentials(watcher, None)) for watcher in watcher_tokens]
        answers: list[int] = []
        threads = [threading.Thread(target=_flood, args=(port, found, until, answers)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{sum(answers)} requests, {len(silent)} silent watchers", flush=True)
        sys.stdin.read()  # the watchers stay


def _watch(stack: ExitStack, port: int, found: Credentials) -> Any:
    """Open a stream, and never read it. The client's library buffers 64 KB, not the 4 MB of its default."""
    channel = credentials.open_channel(Address("localhost", port), found, options=SMALL_WINDOW)
    stack.enter_context(channel)
    return call(channel, "Watch")(WatchRequest(), metadata=found.metadata())


def _flood(port: int, found: Credentials, until: float, answers: list[int]) -> None:
    requests = [SubmitRequest(jobs=[JobSpec(command=["x" * size], chdir="/tmp")]) for size in SIZES]
    many = SubmitRequest(jobs=[JobSpec(command=["true"], chdir="/tmp")] * 50_000, dry_run=True)
    sent = 0
    with credentials.open_channel(Address("localhost", port), found) as channel:
        submit = call(channel, "Submit")
        while time.monotonic() < until:
            with suppress(grpc.RpcError):
                submit(
                    [*requests, many][sent % 4], metadata=found.metadata(), timeout=max(until - time.monotonic(), 0.1)
                )
            sent += 1
    answers.append(sent)


if __name__ == "__main__":
    attack(int(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), float(sys.argv[4]))
